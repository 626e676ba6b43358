"""Discord: its dialect, its gateway, its simulator."""
