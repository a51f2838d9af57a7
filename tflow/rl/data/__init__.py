"""Experience as arrays: batches with named columns, statistics of episodes, estimators of returns and advantages."""
