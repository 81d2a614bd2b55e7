// Loaded into Playwright's driver before its own code (tests/e2e/conftest.py). At each look of `expect` that does not
// find what it waits for, Playwright 1.65 describes the whole page for the message of a failure that mostly never comes:
// a tenth of all that the pages compute. Without the text below it does so again, and tests/e2e/test_waiting.py says so.
const Module = require("module");
const compile = Module.prototype._compile;
const DESCRIBES = "ariaSnapshotForExpectFailure(element, options) {";
Module.prototype._compile = function (content, file, ...more) {
  const quiet = file.endsWith("coreBundle.js") ? content.replaceAll(DESCRIBES, `${DESCRIBES} return undefined;`) : content;
  return compile.call(this, quiet, file, ...more);
};
