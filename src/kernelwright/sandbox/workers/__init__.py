"""Jobs of trusted code in processes of this machine or of a Ray cluster."""
