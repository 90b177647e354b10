"""Measurements that print a table and JSON; they are run by hand, not by the tests."""
