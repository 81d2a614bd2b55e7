"""Lab, What does a tile cost?"""
