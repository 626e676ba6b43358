"""What threadline costs, beside what the raw driver costs in the same run: `make bench`."""
