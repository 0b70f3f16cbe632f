"""Engines that search: our own model, and CTranslate2."""
