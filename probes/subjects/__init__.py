"""The models under test, one module for each way of naming one."""
