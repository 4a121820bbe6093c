"""What MMEngine lacks around training and testing: one Runner, readable failures, safe checkpoints, guards."""
