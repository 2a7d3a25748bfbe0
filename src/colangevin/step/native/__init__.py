"""The CPU's fast path: free, circle and sphere parameters, moved by the native library."""
