// Draws dashboards in a headless Chromium: bundles page.tsx, serves it on loopback, opens it for each, takes a picture.
//
//   node draw.mjs <folder> <address of a Prometheus> <from, s> <to, s> <dashboard.json> …
//
// Leaves <folder>/<dashboard>.png, and prints what came of every panel as JSON. CHROMIUM: which one, if not on PATH.
import {cp, mkdir, readFile, rm, writeFile} from 'node:fs/promises';
import {basename, join} from 'node:path';
import {fileURLToPath} from 'node:url';
import * as esbuild from 'esbuild';
import puppeteer from 'puppeteer-core';

const HERE = fileURLToPath(new URL('.', import.meta.url));
const PATIENCE_MS = 600_000;  // ends what hangs; the machine may be shared

const [folder, prometheus, from_s, to_s, ...boards] = process.argv.slice(2);

/** The page in a folder, icons and font beside it where Grafana's components look for them. */
async function built(site) {
  await rm(site, {recursive: true, force: true});
  await mkdir(site, {recursive: true});
  await cp(join(HERE, 'node_modules/@grafana/ui/dist/public'), join(site, 'build'), {recursive: true});
  // Axes are as wide as their labels in this font.
  for (const [name, weight] of [['Regular', 400], ['Medium', 500]]) {
    await cp(join(HERE, `node_modules/@fontsource/inter/files/inter-latin-${weight}-normal.woff2`),
      join(site, `fonts/inter/Inter-${name}.woff2`), {recursive: true});
  }
  await writeFile(join(site, 'index.html'), `<!doctype html><meta charset="utf-8"><style>body{margin:0}</style><link rel="icon" href="data:,"><link rel="stylesheet" href="page.css">
    <script>window.__grafana_public_path__ = '/'</script><div id="root"></div><script src="page.js"></script>`);
  return esbuild.context({
    entryPoints: [join(HERE, 'page.tsx')], outfile: join(site, 'page.js'), bundle: true, minify: true, jsx: 'automatic',
    loader: {'.svg': 'dataurl', '.ttf': 'empty'}, define: {'process.env.NODE_ENV': '"production"'}, logLevel: 'error',
  });
}

/** One dashboard; what came of its panels, and what went wrong on the page beside. */
async function drawn(browser, address, file) {
  const page = await browser.newPage();
  page.setDefaultTimeout(PATIENCE_MS);
  await page.setViewport({width: 1672, height: 600});
  const troubles = [];
  page.on('pageerror', error => troubles.push(`${error}`));
  page.on('response', answer => { if (answer.status() >= 400) troubles.push(`${answer.status()} of ${answer.url()}`); });
  await page.setRequestInterception(true);
  page.on('request', request => {
    const {origin, protocol} = new URL(request.url());
    if (protocol === 'data:' || [address, prometheus].includes(origin)) return request.continue();
    troubles.push(`asks ${request.url()}`);
    return request.abort();
  });
  const board = JSON.parse(await readFile(file, 'utf8'));
  await page.evaluateOnNewDocument(given => { window.given = given; },
    {board, prometheus, from_s: Number(from_s), to_s: Number(to_s)});
  await page.goto(address);
  await page.waitForFunction(() => window.outcome);
  // Icons are fetched one by one, and legends measured before there is a plot.
  await page.waitForNetworkIdle({idleTime: 1000});
  const panels = await page.evaluate(() => window.outcome());
  const picture = join(folder, basename(file, '.json') + '.png');
  await page.screenshot({path: picture, fullPage: true});
  await page.close();
  return {panels, troubles};
}

await mkdir(folder, {recursive: true});
const context = await built(join(folder, 'site'));
let browser;
try {
  const {port} = await context.serve({host: '127.0.0.1', port: 0, servedir: join(folder, 'site')});
  browser = await puppeteer.launch({
    executablePath: process.env.CHROMIUM, channel: undefined, protocolTimeout: PATIENCE_MS, timeout: PATIENCE_MS,
    // No sandbox: it takes user namespaces, or another user than root; the page is ours, and asks nobody else.
    args: ['--no-sandbox', '--force-color-profile=srgb', '--hide-scrollbars'],
  });
  const all = {};
  for (const file of boards) {
    all[basename(file, '.json')] = await drawn(browser, `http://127.0.0.1:${port}`, file);
  }
  console.log(JSON.stringify(all));
} finally {
  await browser?.close();
  await context.dispose();
}
