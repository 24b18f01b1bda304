// Opens each report in Chromium as three readers would, checks it, and takes a picture.
import { chromium } from 'playwright-core';
import { readFileSync, unlinkSync, writeFileSync } from 'node:fs';
import { basename, join, resolve } from 'node:path';

const [folder, ...pages] = process.argv.slice(2);
const readers = {
  light: { viewport: { width: 1200, height: 900 }, colorScheme: 'light' },
  dark: { viewport: { width: 1200, height: 900 }, colorScheme: 'dark' },
  phone: { viewport: { width: 360, height: 740 }, colorScheme: 'light', isMobile: true, hasTouch: true },
};
// Tall enough to see how it looks, small enough for a picture.
const tallest = 6000;

const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM,
  args: ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking',
    '--disable-component-update', '--disable-sync'],
});

// What is wrong with `file` for a reader; nothing when nothing is.
async function look(file, reader, picture) {
  const mistakes = [];
  const context = await browser.newContext(readers[reader]);
  const page = await context.newPage();
  page.on('console', (message) => {
    if (['error', 'warning'].includes(message.type())) mistakes.push(`console: ${message.text()}`);
  });
  page.on('pageerror', (error) => mistakes.push(`script: ${error.message}`));
  page.on('request', (request) => {
    if (!request.url().startsWith('file:')) mistakes.push(`it asks for ${request.url()}`);
  });
  await page.goto(`file://${resolve(file)}`);
  if (picture) {
    const height = await page.evaluate(() => document.documentElement.scrollHeight);
    const size = { width: readers[reader].viewport.width, height: Math.min(height, tallest) };
    await page.setViewportSize(size);
    await page.screenshot({ path: picture });
    await page.setViewportSize(readers[reader].viewport);
  }
  mistakes.push(...await page.evaluate(async (screen) => {
    const mistakes = [];
    const turn = () => new Promise((done) => { setTimeout(done, 0); });
    // Not innerWidth: on a phone that grows with the page.
    const wide = () => document.documentElement.scrollWidth > screen;
    if (wide()) mistakes.push(`the page is ${document.documentElement.scrollWidth} wide on a screen of ${screen}`);
    // What is in the page, and the first of what is made when it is opened.
    for (const details of [...document.querySelectorAll('details')].slice(0, 60)) details.open = true;
    await turn();
    for (const details of [...document.querySelectorAll('details')].slice(0, 400)) details.open = true;
    await turn();
    if (wide()) mistakes.push(`with all open the page is ${document.documentElement.scrollWidth} wide on ${screen}`);
    for (const chart of document.querySelectorAll('svg.chart')) {
      const name = chart.querySelector('title')?.textContent;
      const marks = [...chart.querySelectorAll('rect:not(.hit):not(.none), path')].filter((mark) => {
        const { width, height } = mark.getBoundingClientRect();
        return width > 0 && height > 0;
      });
      if (marks.length === 0) mistakes.push(`the chart ${name} is empty`);
      const scale = chart.getBoundingClientRect().width / chart.viewBox.baseVal.width;
      const small = [...chart.querySelectorAll('text')].filter((text) => scale > 0 && parseFloat(getComputedStyle(text).fontSize) * scale < 10.95);
      if (small.length > 0) mistakes.push(`${small.length} texts of ${name} are smaller than 11 px`);
      const card = chart.closest('figure')?.querySelector('.scroll')?.clientWidth;
      const large = chart.closest('.large');
      if (!large && card > 0 && chart.getBoundingClientRect().width < card - 1) mistakes.push(`${name} does not fill its card`);
      if (!name || !chart.querySelector('desc')?.textContent) mistakes.push('a chart has no title or description for a screen reader');
      const ids = chart.getAttribute('aria-labelledby').split(' ');
      if (ids.some((id) => document.querySelectorAll(`#${id}`).length !== 1)) mistakes.push(`the ids of ${name} are not unique`);
    }
    const rows = document.querySelectorAll('#tree li.row');
    const filter = document.querySelector('#filter');
    const shown = () => [...rows].filter((row) => !row.hidden).length;
    const type = async (text) => {
      filter.value = text;
      filter.dispatchEvent(new Event('input'));
      await new Promise((done) => { setTimeout(done, 400); });
    };
    await type('no-case-has-this-in-it');
    if (shown() !== 0) mistakes.push('the filter lets through what does not fit');
    await type('');
    if (shown() !== rows.length || rows.length === 0) mistakes.push('the filter loses cases');
    return mistakes;
  }, readers[reader].viewport.width));
  await page.locator('body').press('/');
  const focus = await page.evaluate(() => document.activeElement.id);
  if (focus !== 'filter') mistakes.push('the key / does not go to the filter');
  await context.close();
  return mistakes;
}

let wrong = 0;
for (const file of pages) {
  for (const reader of Object.keys(readers)) {
    const picture = join(folder, `${basename(file, '.html')}-${reader}.png`);
    for (const mistake of await look(file, reader, picture)) {
      console.error(`${basename(file)} (${reader}): ${mistake}`);
      wrong += 1;
    }
  }
}

// These checks must be able to fail: on a page with one of each mistake, all are found.
const broken = join(folder, 'broken.html');
const text = readFileSync(pages[0], 'utf8').replace('<main>', `<main><div style="width:900px">.</div>
<svg class="chart" aria-labelledby="x y"><title id="x">hollow</title><desc id="y">nothing</desc></svg>
<script>console.error('on purpose')</script>`);
writeFileSync(broken, text);
const found = (await look(broken, 'phone')).join('\n');
for (const word of ['on purpose', 'wide on', 'hollow is empty']) {
  if (!found.includes(word)) {
    console.error(`a broken page passes: no mistake mentions "${word}"`);
    wrong += 1;
  }
}
await browser.close();
console.log(`${pages.length} reports in a browser: ${wrong === 0 ? 'nothing wrong' : `${wrong} mistakes`}; pictures are in ${folder}`);
unlinkSync(broken);
process.exit(wrong === 0 ? 0 : 1);
