"""Programs whose sizes vary from call to call."""
