"""What each kind of operation makes of the current value, one function a kind of stage."""
