// Comfort only: every function of the desk works without this file. It decides nothing and stores nothing.
"use strict";

(() => {
  const units = [["day", 86400], ["hour", 3600], ["minute", 60], ["second", 1]];
  const local = new Intl.DateTimeFormat("en-GB", {
    day: "numeric", month: "short", year: "numeric", hour: "2-digit", minute: "2-digit", timeZoneName: "short",
  });

  const span = (seconds) => {
    const index = units.findIndex(([, size]) => seconds >= size);
    if (index < 0) return "0 seconds";
    const count = Math.floor(seconds / units[index][1]);
    const parts = [[count, units[index][0]]];
    if ((count < 10 || units[index][0] === "hour") && index + 1 < units.length) {
      const rest = Math.floor((seconds % units[index][1]) / units[index + 1][1]);
      if (rest) parts.push([rest, units[index + 1][0]]);
    }
    return parts.map(([n, unit]) => `${n} ${unit}${n === 1 ? "" : "s"}`).join(" ");
  };

  // The server's clock decides; the difference to this machine's is taken once, when the page arrives.
  const served = Date.parse(document.documentElement.dataset.now);
  const skew = Number.isNaN(served) ? 0 : served - Date.now();

  const refreshTimes = () => {
    const now = Date.now() + skew;
    for (const element of document.querySelectorAll("[data-relative]")) {
      const seconds = Math.trunc((Date.parse(element.dataset.relative) - now) / 1000);
      const distance = Math.abs(seconds);
      const words = span(distance >= 60 ? distance - (distance % 60) : distance);
      const text = distance < 5 ? "just now" : seconds > 0 ? `in ${words}` : `${words} ago`;
      if (element.textContent !== text) element.textContent = text;
    }
    for (const element of document.querySelectorAll("time[data-local]")) {
      element.title = element.textContent;
      element.textContent = local.format(new Date(element.dateTime));
      delete element.dataset.local;
    }
  };

  const announce = (text) => {
    const announcer = document.getElementById("announcer");
    if (announcer) announcer.textContent = text;
  };

  const rows = () => [...document.querySelectorAll("[data-row]")];
  const move = (step) => {
    const all = rows();
    const active = document.activeElement;
    const at = all.indexOf(active?.closest(".row")?.querySelector("[data-row]") ?? active);
    all[at < 0 ? (step > 0 ? 0 : all.length - 1) : Math.min(all.length - 1, Math.max(0, at + step))]?.focus();
  };
  const keys = {
    j: () => move(1),
    k: () => move(-1),
    o: () => document.activeElement?.matches("[data-row]") && document.activeElement.click(),
    x: () => document.activeElement?.closest(".row")?.querySelector(".pick")?.click(),
    a: () => document.getElementById("approve")?.focus(),
    d: () => document.getElementById("reason")?.focus(),
    "?": () => {
      const help = document.getElementById("keys");
      if (help) help.open ? help.close() : help.showModal();
    },
  };

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
    if (event.target instanceof Element && event.target.matches("input:not([type=checkbox]), textarea, select")) return;
    const action = keys[event.key];
    if (action) {
      event.preventDefault();
      action();
    }
  });

  document.addEventListener("submit", (event) => {
    const button = event.submitter;
    if (event.target.method !== "post" || !(button instanceof HTMLButtonElement)) return;
    // A second click would be refused anyway; this spares the reader that page.
    setTimeout(() => {
      for (const each of event.target.querySelectorAll("button")) each.disabled = true;
      button.setAttribute("aria-busy", "true");
    });
  });
  window.addEventListener("pageshow", (event) => { if (event.persisted) location.reload(); });

  // What the page says, whatever the time of the clock: a look that found nothing new is not told to anybody.
  const said = () => document.getElementById("main").textContent.replace(/\s+/g, " ");
  let before = "";
  let focused = null;
  let picked = new Map();
  document.addEventListener("htmx:before:swap", () => {
    before = said();
    const active = document.activeElement;
    focused = active?.id ? `#${CSS.escape(active.id)}` : active?.matches("[data-row]") ? `[data-row][href="${CSS.escape(active.getAttribute("href"))}"]` : null;
    picked = new Map([...document.querySelectorAll(".pick:checked")].map((box) => [box.id, box.value]));
  });
  document.addEventListener("htmx:after:swap", () => {
    refreshTimes();
    const list = document.getElementById("queue");
    let lost = 0;
    if (list) {
      // What was chosen stays chosen, unless it is not any more what the reader chose.
      for (const box of document.querySelectorAll(".pick")) box.checked = picked.get(box.id) === box.value;
      lost = picked.size - document.querySelectorAll(".pick:checked").length;
      if (focused && document.activeElement === document.body) document.querySelector(focused)?.focus({ preventScroll: true });
    }
    focused = null;
    if (said() === before) return;
    if (list) announce(`The list of requests was updated.${lost ? ` ${lost} of those that you had chosen changed or left the list.` : ""}`);
    else announce(document.getElementById("changed") ? "This request has changed." : "What became of it was updated.");
  });

  document.getElementById("notice")?.focus();
  document.querySelector("[aria-invalid='true']")?.focus();
  refreshTimes();
  setInterval(refreshTimes, 1000);
})();
