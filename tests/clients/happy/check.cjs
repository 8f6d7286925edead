// Reads one JSON line at a time, {"schema": name, "values": [...]}, and answers with what that schema of Happy's own
// package says of each: null, or the reason for which it refuses it. argv[2] is the folder that has the package.
const { createRequire } = require("node:module");
const { createInterface } = require("node:readline");
const wire = createRequire(process.argv[2] + "/")("@slopus/happy-wire");

createInterface({ input: process.stdin }).on("line", (line) => {
  const { schema, values } = JSON.parse(line);
  const said = values.map((value) => {
    const read = wire[schema].safeParse(value);
    return read.success ? null : JSON.stringify(read.error.issues);
  });
  process.stdout.write(JSON.stringify(said) + "\n");
});
