// While a run goes on: asks for the page again and brings what has changed into this one. What is
// the same stays, and with it the place on the page, what was opened, and a chart that is looked at.
(function () {
  "use strict";
  const parse = (text) => new DOMParser().parseFromString(text, "text/html");
  const copy = (node) => document.importNode(node, true);
  const same = (a, b) => a.tagName === b.tagName && a.id === b.id;
  // Within these, parts are told apart; all else is one part.
  const DIVIDED = "main, .first, .section";
  const TRIES = 5;

  // The page as it came last, with nothing drawn into it: so this comes before charts.js.
  let shown = document.cloneNode(true);

  function redraw(at, next, last) {
    // It would jump under the pointer.
    if (at.matches(":hover") && !last) return;
    at.querySelector("figcaption").replaceWith(copy(next.querySelector("figcaption")));
    at.querySelector(".static").replaceWith(copy(next.querySelector(".static")));
    const label = next.querySelector("[role=img]").getAttribute("aria-label");
    at.querySelector("[role=img]").setAttribute("aria-label", label);
    at.querySelector("script").textContent = next.querySelector("script").textContent;
    at.redraw();
  }

  function exchange(at, next) {
    const fresh = copy(next);
    const all = (node) => [...(node.tagName === "DETAILS" ? [node] : []), ...node.querySelectorAll("details")];
    const before = new Map(all(at).map((d, i) => [d.id || i, d.open]));
    all(fresh).forEach((d, i) => (d.open = before.get(d.id || i) ?? d.open));
    at.replaceWith(fresh);
    dispatchEvent(new CustomEvent("shown", { detail: fresh }));
  }

  function update(at, was, next, last) {
    if (was.isEqualNode(next)) return;
    if (next.matches(".chart")) return redraw(at, next, last);
    const parts = [...next.children];
    const alike = parts.length === was.children.length && parts.every((p, i) => same(p, was.children[i]));
    if (!alike || !next.matches(DIVIDED)) return exchange(at, next);
    [...at.children].forEach((child, i) => update(child, was.children[i], parts[i], last));
  }

  function bring(text) {
    const next = parse(text);
    const main = next.querySelector("main");
    const last = !main.dataset.every;
    const y = scrollY;
    update(document.querySelector("main"), shown.querySelector("main"), main, last);
    scrollTo(scrollX, y);
    document.title = next.title;
    document.querySelector("footer").replaceWith(copy(next.querySelector("footer")));
    shown = next;
    return last ? 0 : Number(main.dataset.every);
  }

  let failed = 0;
  async function ask() {
    let wait = every;
    try {
      if (!document.hidden) {
        const answer = await fetch(location.pathname, { cache: "no-store" });
        if (!answer.ok) throw new Error(answer.status);
        wait = every = bring(await answer.text());
        failed = 0;
      }
    } catch (error) {
      if (++failed >= TRIES) {
        const note = document.createElement("p");
        note.textContent = "No answer any more: the command has ended, or was killed. What is shown is the last that it told.";
        document.querySelector("#verdict").append(note);
        return;
      }
    }
    if (wait) setTimeout(ask, wait);
  }

  let every = Number(document.querySelector("main").dataset.every);
  setTimeout(ask, every);
})();
