"""Kernels of recurrent layers: LSTM, GRU and RNN."""
