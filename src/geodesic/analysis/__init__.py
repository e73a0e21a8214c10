"""Analysis of runs: statistics over seeds, paths of stages, and the paper's claims on small CMDPs."""
