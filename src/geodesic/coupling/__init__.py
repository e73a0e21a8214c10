"""Transport plans between weighted points: exact, sorted on the line, or by cells for many points; assignments."""
