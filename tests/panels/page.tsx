// Draws one dashboard with Grafana's own components: reads its JSON, asks Prometheus each panel's queries, makes data
// frames of the answers, and hands them to Grafana's time series in Grafana's panel. What came of each panel tells
// `window.outcome()`, which is there once all are asked.
//
// What Grafana's server and its panel plugins do beside is here as far as our dashboards have it, and what they have
// not is refused rather than left out: panels of another type, transformations, overrides.
import {
  applyFieldOverrides, createTheme, dateTime, EventBusSrv, FieldType, ThemeContext,
  type DataFrame, type FieldConfig, type TimeRange,
} from '@grafana/data';
import type {VizLegendOptions} from '@grafana/schema';
import {ErrorBoundary, GlobalStyles, PanelChrome, PanelContextProvider, TimeSeries} from '@grafana/ui';
import type {ReactNode} from 'react';
import {flushSync} from 'react-dom';
import {createRoot} from 'react-dom/client';

interface Target {expr: string; legendFormat: string}
interface Panel {
  id: number;
  type: string;
  title: string;
  description?: string;
  gridPos: {x: number; y: number; w: number; h: number};
  fieldConfig: {defaults: FieldConfig; overrides: unknown[]};
  options: {legend: VizLegendOptions};
  targets?: Target[];
  transformations?: unknown[];
  panels?: Panel[];
}
interface Given {
  board: {title: string; panels: Panel[]};
  prometheus: string;
  from_s: number;
  to_s: number;
}
interface Outcome {
  title: string;
  error?: string;
  /** Series of each query. */
  series: number[];
  /** What stands in the legend. */
  legend: string[];
  /** Pixels of the plot that have a colour: grid, axes and ground are grey. */
  coloured: number;
}
declare global {
  interface Window {given: Given; outcome?: () => Outcome[]}
}

const WIDTH_PX = 1640, COLUMNS = 24, CELL_PX = 30, GAP_PX = 8;  // as Grafana's own grid of a full screen
const SCRAPED_S = 15;  // scrape_interval in dashboards/prometheus/prometheus.yml.j2

const {board, prometheus, from_s, to_s} = window.given;
const theme = createTheme({colors: {mode: 'dark'}});
const range = {from: dateTime(from_s * 1000), to: dateTime(to_s * 1000)};
const timeRange: TimeRange = {...range, raw: range};
const columns_px = (count: number) => (count * (WIDTH_PX + GAP_PX)) / COLUMNS - GAP_PX;
const rows_px = (count: number) => count * (CELL_PX + GAP_PX) - GAP_PX;

function finite(text: string): number | null {
  const value = Number(text);
  return Number.isFinite(value) ? value : null;
}

/** The step between points, in seconds: as many points as the panel has pixels, and none between two scrapes. */
function step_s(panel: Panel): number {
  const finest = (to_s - from_s) / columns_px(panel.gridPos.w);
  return Math.ceil(Math.max(finest, SCRAPED_S) / SCRAPED_S) * SCRAPED_S;
}

/** One query's series. All clusters and hosts; $__rate_interval as Grafana's Prometheus data source has it. */
async function asked(target: Target, panel: Panel): Promise<DataFrame[]> {
  const step = step_s(panel);
  const query = target.expr
    .replaceAll('$__rate_interval', `${Math.max(step + SCRAPED_S, 4 * SCRAPED_S)}s`)
    .replaceAll('$cluster', '.*').replaceAll('$instance', '.*');
  if (query.includes('$')) throw new Error(`a variable that nobody knows: ${query}`);
  const of = {query, start: `${from_s}`, end: `${to_s}`, step: `${step}`};
  const answer = await (await fetch(`${prometheus}/api/v1/query_range?${new URLSearchParams(of)}`)).json();
  if (answer.status !== 'success') throw new Error(`${answer.errorType}: ${answer.error}`);
  return answer.data.result.map((found: {metric: Record<string, string>; values: [number, string][]}) => ({
    length: found.values.length,
    fields: [
      {name: 'Time', type: FieldType.time, config: {interval: step * 1000}, values: found.values.map(([at]) => at * 1000)},
      {
        // As Grafana's panel plugin (timeseries/utils.ts, prepareGraphableFields): what is no number is a gap.
        name: 'Value', type: FieldType.number, labels: found.metric, values: found.values.map(([, value]) => finite(value)),
        config: {
          color: {mode: 'palette-classic'},  // what the panel plugin has where the dashboard says nothing
          ...structuredClone(panel.fieldConfig.defaults),
          displayNameFromDS: target.legendFormat.replace(/\{\{\s*(\w+)\s*\}\}/g, (_, label) => found.metric[label] ?? ''),
        },
      },
    ],
  }));
}

/** A panel's frames, one list for each of its queries; an error for what is not drawn here. */
async function frames(panel: Panel): Promise<DataFrame[][]> {
  if (panel.type !== 'timeseries') throw new Error(`panels of type ${panel.type} are not drawn here`);
  if (panel.transformations?.length) throw new Error('transformations are not made here');
  if (panel.fieldConfig.overrides.length) throw new Error('overrides are not made here');
  return Promise.all((panel.targets ?? []).map(target => asked(target, panel)));
}

function Drawn({panel, found}: {panel: Panel; found: DataFrame[][]}) {
  const data = applyFieldOverrides({
    data: found.flat(), fieldConfig: {defaults: {}, overrides: []}, replaceVariables: text => text, theme, timeZone: 'utc',
  });
  const {w, h} = panel.gridPos;
  return (
    <PanelChrome title={panel.title} description={panel.description} width={columns_px(w)} height={rows_px(h)}>
      {(width, height) => data.length
        ? <TimeSeries frames={data} timeRange={timeRange} timeZone="utc" legend={panel.options.legend} width={width} height={height} />
        : <div style={{display: 'grid', placeItems: 'center', height}}>No data</div>}
    </PanelChrome>
  );
}

const Failed = ({panel, error}: {panel: Panel; error: Error}) => (
  <PanelChrome title={panel.title} statusMessage={error.message} width={columns_px(panel.gridPos.w)} height={rows_px(panel.gridPos.h)}>
    {() => <div data-error={error.message}>{error.message}</div>}
  </PanelChrome>
);

const Row = ({title}: {title: string}) => <h6 style={{margin: 0, alignSelf: 'end'}}>{title}</h6>;

/** Where a panel stands in the grid. */
function Placed({panel, children}: {panel: Panel; children: ReactNode}) {
  const {x, y, w, h} = panel.gridPos;
  return (
    <section data-panel={panel.id} style={{gridArea: `${y + 1} / ${x + 1} / span ${h} / span ${w}`, display: 'grid'}}>
      {children}
    </section>
  );
}

function Board({answers}: {answers: PromiseSettledResult<DataFrame[][]>[]}) {
  const grid = {
    display: 'grid', width: WIDTH_PX, gap: GAP_PX,
    gridTemplateColumns: `repeat(${COLUMNS}, minmax(0, 1fr))`, gridAutoRows: CELL_PX,
  };
  const said = `${range.from.toISOString()} to ${range.to.toISOString()}`;
  return (
    <main style={{padding: 16, width: WIDTH_PX + 32}}>
      <h4>{board.title} <small style={{color: theme.colors.text.secondary}}>{said}, all clusters and hosts</small></h4>
      <div style={grid}>
        {board.panels.map((panel, at) => {
          const answer = answers[at];
          return (
            <Placed key={panel.id} panel={panel}>
              {panel.type === 'row' ? <Row title={panel.title} />
                : answer.status === 'rejected' ? <Failed panel={panel} error={answer.reason} />
                : <ErrorBoundary errorLogger={() => undefined}>
                    {({error}) => error ? <Failed panel={panel} error={error} /> : <Drawn panel={panel} found={answer.value} />}
                  </ErrorBoundary>}
            </Placed>
          );
        })}
      </div>
    </main>
  );
}

function coloured(canvas: HTMLCanvasElement): number {
  const {data} = canvas.getContext('2d')!.getImageData(0, 0, canvas.width, canvas.height);
  let count = 0;
  for (let at = 0; at < data.length; at += 4) {
    const rgb = data.subarray(at, at + 3);
    if (data[at + 3] > 100 && Math.max(...rgb) - Math.min(...rgb) > 60) count++;
  }
  return count;
}

/** What a person sees of a panel. */
function outcome(panel: Panel, answer: PromiseSettledResult<DataFrame[][]>): Outcome {
  const place = document.querySelector(`[data-panel="${panel.id}"]`)!;
  const error = place.querySelector('[data-error]')?.getAttribute('data-error') ?? undefined;
  const legend = [...place.querySelectorAll('[data-testid^="data-testid VizLegend series"] button')];
  return {
    title: panel.title,
    error,
    series: answer.status === 'fulfilled' ? answer.value.map(found => found.length) : [],
    legend: legend.map(item => item.textContent ?? ''),
    coloured: [...place.querySelectorAll('canvas')].reduce((sum, canvas) => sum + coloured(canvas), 0),
  };
}

async function draw() {
  const none: Promise<DataFrame[][]> = Promise.resolve([]);
  const answers = await Promise.allSettled(board.panels.map(panel => panel.type === 'row' ? none : frames(panel)));
  const context = {eventsScope: 'global', eventBus: new EventBusSrv()};
  const root = createRoot(document.getElementById('root')!);
  const page = (content: ReactNode) => (
    <ThemeContext.Provider value={theme}>
      <PanelContextProvider value={context}><GlobalStyles />{content}</PanelContextProvider>
    </ThemeContext.Provider>
  );
  flushSync(() => root.render(page(null)));
  await Promise.all([400, 500].map(weight => document.fonts.load(`${weight} 12px Inter`)));
  flushSync(() => root.render(page(<Board answers={answers} />)));
  window.outcome = () => board.panels
    .map((panel, at) => ({panel, answer: answers[at]}))
    .filter(({panel}) => panel.type !== 'row')
    .map(({panel, answer}) => outcome(panel, answer));
}

void draw();
