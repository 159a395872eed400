"""Optimized modules without kernelwright: packages of AOTInductor, which Python and C++ load."""
