// By the ending of its name: how a file whose lines are not text becomes a document or text. A test compares it with files.py;
// files.js itself knows documents and office files.

export const STRUCTURED = {
  ".json": "json2po of the Translate Toolkit makes a PO file of it",
  ".jsonl": "json2po of the Translate Toolkit makes a PO file of it",
  ".arb": "arb2po of the Translate Toolkit makes a PO file of it",
  ".yaml": "yaml2po of the Translate Toolkit makes a PO file of it",
  ".yml": "yaml2po of the Translate Toolkit makes a PO file of it",
  ".ini": "ini2po of the Translate Toolkit makes a PO file of it",
  ".toml": "toml2po of the Translate Toolkit makes a PO file of it",
  ".properties": "prop2po of the Translate Toolkit makes a PO file of it",
  ".php": "php2po of the Translate Toolkit makes a PO file of it",
  ".ftl": "fluent2po of the Translate Toolkit makes a PO file of it",
  ".resx": "resx2po of the Translate Toolkit makes a PO file of it",
  ".idml": "idml2po of the Translate Toolkit makes a PO file of it",
  ".dtd": "dtd2po of the Translate Toolkit makes a PO file of it",
  ".rc": "rc2po of the Translate Toolkit makes a PO file of it",
  ".strings": "xcodebuild -exportLocalizations writes XLIFF of it",
  ".stringsdict": "xcodebuild -exportLocalizations writes XLIFF of it",
  ".xcstrings": "xcodebuild -exportLocalizations writes XLIFF of it",
  ".storyboard": "xcodebuild -exportLocalizations writes XLIFF of it",
  ".xib": "xcodebuild -exportLocalizations writes XLIFF of it",
  ".csv": "write the column with the text into a file of its own",
  ".tsv": "write the column with the text into a file of its own",
  ".mo": "msgunfmt makes a PO file of it",
  ".tmx": "it is a translation memory: train on it, as a corpus of kind tmx",
  ".ts": "lconvert makes a PO file of translations of Qt, and xgettext one of a program",
  ".xml": "android2po makes a PO file of Android's strings, and po4a of other XML"
};
