"""Files that have texts in two languages or more: catalogs, translation memories and XLIFF."""
