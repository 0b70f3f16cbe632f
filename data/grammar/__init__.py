"""A small synchronous grammar: every derivation is realised once in German and once in English."""
