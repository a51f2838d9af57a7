"""``tflow check``."""
