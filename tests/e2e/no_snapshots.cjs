// Loaded into Playwright's driver before its own code (tests/e2e/conftest.py). At each look of `expect` that does not
// find what it waits for, Playwright 1.65 describes the whole page for the message of a failure that mostly never comes:
// 57 s of CPU for test_app.py where it is 52 without. If the text below is gone, tests/e2e/test_waiting.py says so.
const Module = require("module");
const compile = Module.prototype._compile;
const DESCRIBES = "ariaSnapshotForExpectFailure(element, options) {";
Module.prototype._compile = function (content, file, ...more) {
  const quiet = file.endsWith("coreBundle.js") ? content.replaceAll(DESCRIBES, `${DESCRIBES} return undefined;`) : content;
  return compile.call(this, quiet, file, ...more);
};
