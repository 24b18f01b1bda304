// Opens pages of the book in Chromium as three readers would, searches, and takes pictures.
import { chromium } from 'playwright-core';
import { join, resolve } from 'node:path';

const [book, folder] = process.argv.slice(2);
// Long tables, long code, long lists.
const pages = ['tutorial', 'how-to', 'suites', 'fakegpu', 'findings', 'cli'];
const readers = {
  light: { viewport: { width: 1200, height: 1600 }, colorScheme: 'light' },
  dark: { viewport: { width: 1200, height: 1600 }, colorScheme: 'dark' },
  phone: { viewport: { width: 360, height: 1600 }, colorScheme: 'light', isMobile: true, hasTouch: true },
};
const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM,
  args: ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking',
    '--disable-component-update', '--disable-sync'],
});
let wrong = 0;
const mistake = (text) => { console.error(text); wrong += 1; };

for (const [reader, options] of Object.entries(readers)) {
  const page = await (await browser.newContext(options)).newPage();
  page.setDefaultTimeout(120_000);
  page.on('pageerror', (error) => mistake(`the book (${reader}), script: ${error.message}`));
  page.on('request', (request) => {
    if (!/^(file|data):/.test(request.url())) mistake(`the book (${reader}) asks for ${request.url()}`);
  });
  for (const name of pages) {
    await page.goto(`file://${resolve(book, `${name}.html`)}`);
    await page.screenshot({ path: join(folder, `book-${name}-${reader}.png`) });
    const width = await page.evaluate(() => document.documentElement.scrollWidth);
    if (width > options.viewport.width) mistake(`${name}.html is ${width} wide on a screen of ${options.viewport.width}`);
  }
  if (reader === 'phone') continue;
  // A word that has a page of its own.
  await page.locator('#mdbook-search-toggle, #search-toggle').first().click();
  await page.keyboard.type('rank_lost');
  const found = page.locator('#mdbook-searchresults a, #searchresults a');
  await found.first().waitFor();
  const links = await found.evaluateAll((all) => all.map((link) => link.getAttribute('href')));
  if (!links.some((link) => link.includes('findings.html'))) mistake(`a search for rank_lost finds ${links.join(', ')}`);
  await page.screenshot({ path: join(folder, `book-search-${reader}.png`) });
}
await browser.close();
console.log(`${pages.length} pages of the book in a browser: ${wrong === 0 ? 'nothing wrong' : `${wrong} mistakes`}`);
process.exit(wrong === 0 ? 0 : 1);
