"""Its presence lets every test import the helper modules next to it."""
