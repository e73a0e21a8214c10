"""What runs say: statistics over seeds, the paths that stages took, and the paper's claims on small CMDPs."""
