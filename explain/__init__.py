"""What turns a kernel's run into something to look at: experiments, traces, traffic, measurements, the player."""
