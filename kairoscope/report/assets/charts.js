// Draws every chart description of the page with uPlot and hides its static picture on screen.
// If anything fails, the static picture stays: it shows the same.
(function () {
  "use strict";
  const two = (n) => String(n).padStart(2, "0");
  const offset = (s) => {
    const r = Math.round(Math.abs(s));
    return (s < 0 ? "-" : "") + Math.floor(r / 60) + ":" + two(r % 60);
  };
  const figure = (v) =>
    v == null ? "\u2013" : v.toLocaleString("en", { maximumSignificantDigits: v >= 1000 ? 6 : 3 });
  const steps = [1, 2, 5, 10, 15, 20, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 43200];

  // A little more than the values span, and at least a decade.
  const spread = (low, high) => {
    const widen = Math.max(1.4, Math.sqrt((10 * low) / high));
    return low > 0 ? [low / widen, high * widen] : [0.1, 1];
  };

  // Powers of ten, with 2 and 5 times them where those would be too few; never more than a dozen.
  const decades = (u, axis, low, high) => {
    const at = [];
    const times = high / low < 500 ? [1, 2, 5] : [1];
    for (let e = Math.floor(Math.log10(low)); e <= Math.log10(high); e++)
      for (const m of times) {
        const v = Number(m + "e" + e);
        if (v >= low && v <= high) at.push(v);
      }
    return at;
  };

  function options(chart, box) {
    const ink = getComputedStyle(document.body).color;
    const fade = (alpha) => ink.replace("rgb(", "rgba(").replace(")", ", " + alpha + ")");
    const grid = { stroke: fade(0.14), width: 1 };
    const ticks = { stroke: fade(0.4), width: 1 };
    // Of a narrow chart without what stands in brackets, which would be cut off.
    const narrow = box.clientWidth < 560;
    const xLabel = narrow ? chart.xLabel.replace(/ \([^)]*\)$/, "") : chart.xLabel;
    const x = { label: xLabel, stroke: ink, grid, ticks, labelSize: 22, size: 34 };
    const label = new Map(chart.ticks);
    if (chart.time) {
      x.incrs = steps;
      x.values = (u, at) => at.map(offset);
    } else if (chart.ticks.length) {
      x.splits = () => chart.ticks.map((tick) => tick[0]);
      // A label that would touch the one before it is left out; the last one is always there.
      x.values = (u, at) => {
        const free = (v, w) => Math.abs(u.valToPos(v, "x") - u.valToPos(w, "x")) >= 42;
        const last = at[at.length - 1];
        let shown = null;
        return at.map((v) => {
          if (v !== last && ((shown != null && !free(v, shown)) || !free(v, last))) return "";
          shown = v;
          return label.get(v);
        });
      };
    }
    const banded = chart.bands.flatMap((band) => band.low.concat(band.high)).filter((v) => v != null);
    const behind = (u) => {
      const { left, top, width, height } = u.bbox;
      const at = (v) => Math.min(left + width, Math.max(left, u.valToPos(v, "x", true)));
      const span = (from, to, colour, alpha, text) => {
        u.ctx.globalAlpha = alpha;
        u.ctx.fillStyle = colour;
        u.ctx.fillRect(at(from), top, at(to) - at(from), height);
        u.ctx.globalAlpha = 1;
        u.ctx.fillStyle = ink;
        u.ctx.textBaseline = "top";
        u.ctx.textAlign = "left";
        u.ctx.font = 12 * devicePixelRatio + "px system-ui, sans-serif";
        u.ctx.fillText(text, at(from) + 4, top + 4);
      };
      u.ctx.save();
      if (chart.shade) span(chart.shade[0], chart.shade[1], ink, 0.07, "warm-up");
      for (const fault of chart.faults) span(fault[0], fault[1], chart.faultColour, 0.22, fault[2]);
      for (const band of chart.bands) {
        const known = chart.x.map((_, i) => i).filter((i) => band.low[i] != null && band.high[i] != null);
        const y = (v) => Math.min(top + height, Math.max(top, u.valToPos(v, "y", true)));
        u.ctx.beginPath();
        known.forEach((i) => u.ctx.lineTo(at(chart.x[i]), y(band.high[i])));
        known.reverse().forEach((i) => u.ctx.lineTo(at(chart.x[i]), y(band.low[i])));
        u.ctx.closePath();
        u.ctx.globalAlpha = 0.2;
        u.ctx.fillStyle = band.colour;
        u.ctx.fill();
        u.ctx.globalAlpha = 1;
      }
      u.ctx.strokeStyle = fade(0.55);
      u.ctx.setLineDash([2, 3]);
      for (const mark of chart.marks) {
        u.ctx.beginPath();
        u.ctx.moveTo(at(mark), top);
        u.ctx.lineTo(at(mark), top + height);
        u.ctx.stroke();
      }
      u.ctx.restore();
    };
    return {
      width: box.clientWidth,
      height: narrow ? 240 : 300,
      // Charts over time share one cursor: a spike here is looked up there.
      cursor: chart.time ? { sync: { key: "time" } } : {},
      scales: {
        x: {
          time: false,
          // The load's start is on every chart, unless a part of it was picked.
          range: (u, low, high) => [chart.time && low === chart.x[0] ? Math.min(0, low) : low, high],
        },
        y: chart.log
          ? { distr: 3, range: (u, low, high) => spread(Math.min(low, ...banded), Math.max(high, ...banded)) }
          : { range: (u, low, high) => [0, high > 0 ? high * 1.08 : 1] },
      },
      axes: [
        x,
        Object.assign(
          { label: chart.unit, stroke: ink, grid, ticks, labelSize: 18,
            // As wide as the longest value, so that the title stands beside it.
            size: (u, values) => 24 + 7 * Math.max(4, ...(values || []).map((v) => v.length)),
            values: (u, at) => at.map((v) => (v == null ? "" : figure(v))) },
          chart.log ? { splits: decades, filter: (u, at) => at } : {}
        ),
      ],
      series: [
        { label: chart.time ? "min:s" : chart.xLabel.split(" ")[0],
          value: (u, v) => (v == null ? "\u2013" : chart.time ? offset(v) : label.get(v) || figure(v)) },
      ].concat(
        chart.series.map((s) => ({
          label: s.label,
          stroke: s.colour,
          width: s.dashed ? 1.5 : 2,
          dash: s.dashed ? [6, 4] : undefined,
          spanGaps: chart.sparse,
          points: { show: chart.sparse && !s.dashed, size: 6 },
          value: (u, v) => (v == null ? "\u2013" : figure(v) + " " + chart.unit),
        }))
      ),
      hooks: { drawClear: [behind] },
    };
  }

  function show(element) {
    const box = element.querySelector(".screen");
    let plot = null;
    let stale = false;
    const draw = () => {
      const width = box.clientWidth;
      if (!width || (plot && plot.width === width && !stale)) return;
      stale = false;
      const chart = JSON.parse(element.querySelector("script").textContent);
      const data = [chart.x].concat(chart.series.map((s) => s.values));
      if (plot) plot.destroy();
      plot = new uPlot(options(chart, box), data, box);
    };
    // Draws it anew: with other colours, or when its description has changed.
    element.redraw = () => {
      stale = true;
      draw();
    };
    element.classList.add("live");
    try {
      draw();
    } catch (error) {
      element.classList.remove("live");
      box.textContent = "";
      return;
    }
    new ResizeObserver(draw).observe(box);
  }

  const charts = (within) => within.querySelectorAll(".chart");
  charts(document).forEach(show);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () =>
    charts(document).forEach((element) => element.redraw())
  );
  // For who brings new parts into the page.
  addEventListener("shown", (event) => charts(event.detail).forEach(show));

  // A link to a folded section opens it.
  const unfold = () => {
    const target = document.getElementById(location.hash.slice(1));
    const folded = target && target.closest("details");
    if (!folded) return;
    folded.open = true;
    target.scrollIntoView();
  };
  addEventListener("hashchange", unfold);
  document.querySelectorAll("nav a").forEach((a) => a.addEventListener("click", () => setTimeout(unfold)));
  unfold();

  // Paper has nothing to click on: what is folded is printed open.
  let opened = [];
  addEventListener("beforeprint", () => {
    opened = [...document.querySelectorAll("details:not([open])")];
    opened.forEach((d) => (d.open = true));
  });
  addEventListener("afterprint", () => opened.forEach((d) => (d.open = false)));
})();
