// Reads the page again, and says so where what it shows is old. Without it the page reloads itself.
"use strict";

const every = Number(document.body.dataset.every) * 1000;
const least = 2000;
const late = 2 * every + 10000; // milliseconds after which an answer counts as old
let answered = Date.now();
let timer = 0;

function mark() {
  const past = Date.now() - answered;
  const old = document.getElementById("old");
  const isOld = past > late;
  document.body.classList.toggle("old", isOld);
  old.hidden = !isOld;
  if (isOld) {
    const when = new Date(answered).toLocaleTimeString();
    old.textContent = `No answer since ${when}: what stands below is old.`;
  }
}

function replace(text) {
  const next = new DOMParser().parseFromString(text, "text/html");
  const open = new Set();
  document.querySelectorAll("details[open][id]").forEach((one) => open.add(one.id));
  for (const tag of ["header", "main"]) {
    const part = next.querySelector(tag);
    document.querySelector(tag).replaceWith(document.adoptNode(part));
  }
  open.forEach((id) => document.getElementById(id)?.setAttribute("open", ""));
  document.title = next.title;
}

async function refresh() {
  clearTimeout(timer);
  if (!document.hidden) {
    try {
      const stop = AbortSignal.timeout(Math.max(every, 10000));
      const answer = await fetch(location.href, { cache: "no-store", signal: stop });
      if (answer.ok || answer.status === 404) {
        replace(await answer.text());
        answered = Date.now();
      }
    } catch {
      // it is said by `mark` when it has lasted
    }
  }
  clearTimeout(timer);
  timer = setTimeout(refresh, Math.max(every, least));
}

document.addEventListener("visibilitychange", () => {
  mark(); // a phone that slept shows what it had then
  if (!document.hidden) refresh();
});
setInterval(mark, 1000);
timer = setTimeout(refresh, Math.max(every, least));
