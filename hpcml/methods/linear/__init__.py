"""What the methods with a weight vector for each label share."""
