"""Learning: losses, optimisers, the learner, and the operators that train."""
