"""What MMEngine lacks around training and testing: readable failures, safe checkpoints, guards."""
