"use strict";
const data = JSON.parse(document.getElementById("data").textContent);
const traceText = document.getElementById("trace").textContent;
const $ = (id) => document.getElementById(id);
const tip = document.body.appendChild(Object.assign(document.createElement("div"), {id: "tip", hidden: true}));
const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();
const number = (x) => Math.round(x).toLocaleString("en");
const redraws = [];

function place(line) {
  const known = data.lines[line];
  if (!known) return line ? `PTX line ${line}` : "";
  const source = known[1] ? `${known[1]}: ${known[2]}\n` : "";
  return `${source}PTX line ${line}: ${known[0]}`;
}

function showTip(text, x, y) {
  tip.hidden = !text;
  if (!text) return;
  tip.textContent = text;
  const box = tip.getBoundingClientRect();
  tip.style.left = Math.max(4, Math.min(x + 12, innerWidth - box.width - 4)) + "px";
  tip.style.top = (y + 16 + box.height > innerHeight ? Math.max(4, y - box.height - 12) : y + 16) + "px";
}

// A canvas at the resolution of the screen, redrawn when its width or the colours change.
function surface(canvas, height, draw) {
  const context = canvas.getContext("2d");
  let asked = false;
  const paint = () => {
    asked = false;
    const ratio = devicePixelRatio || 1, width = canvas.clientWidth;
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, width, height);
    draw(context, width);
  };
  canvas.style.height = height + "px";
  const redraw = () => { if (!asked) { asked = true; requestAnimationFrame(paint); } };
  new ResizeObserver(redraw).observe(canvas);
  redraws.push(redraw);
  redraw();
  return redraw;
}
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => redraws.forEach((redraw) => redraw()));

function clipped(context, text, x, y, width) {
  let shown = text;
  while (shown.length > 1 && context.measureText(shown).width > width) shown = shown.slice(0, -2) + "…";
  context.fillText(shown, x, y);
}

// The next round number of units that leaves about 90 pixels between two marks.
function step(perPixel) {
  const wanted = perPixel * 90, power = 10 ** Math.floor(Math.log10(wanted));
  return Math.max(1, [1, 2, 5, 10].map((f) => f * power).find((s) => s >= wanted));
}

// timeline ------------------------------------------------------------------------------------------------------------

const WAIT = "waits for ";
function readTrace(events) {
  const tracks = new Map(), key = (event) => event.pid + "/" + event.tid;
  const ctas = new Set(events.map((event) => event.pid));
  for (const event of events.filter((event) => event.name === "thread_name")) {
    const name = event.args.name, warp = /^warp (\d+)$/.exec(name);
    const kind = warp ? "warp" : name === "copies" ? "copy" : "unit";
    const role = warp && data.roles[warp[1]];
    const cta = ctas.size > 1 ? `CTA ${event.pid - 1} ` : "";
    tracks.set(key(event), {name: cta + name + (role ? ` (${role})` : ""), kind, cta: event.pid, tid: event.tid, events: []});
  }
  const barriers = new Map();
  for (const event of events.filter((event) => event.ph === "X")) {
    const track = tracks.get(key(event)), waits = event.name.startsWith(WAIT);
    const shown = {name: event.name, start: event.ts, end: event.ts + event.dur, line: event.args["PTX line"],
      kind: waits ? "waits" : track.kind === "warp" ? "runs" : track.kind, track};
    track.events.push(shown);
    if (!waits) continue;
    const what = event.name.slice(WAIT.length), id = event.pid + "/" + what;
    if (!barriers.has(id)) barriers.set(id, {name: what, kind: "barrier", cta: event.pid, tid: 1e9, events: []});
    const row = barriers.get(id);
    row.events.push({...shown, name: `${track.name} ${event.name}`, kind: "barrier", track: row});
  }
  const order = (track) => ["warp", "unit", "copy", "barrier"].indexOf(track.kind);
  const all = [...tracks.values(), ...barriers.values()].filter((track) => track.events.length);
  all.sort((a, b) => a.cta - b.cta || order(a) - order(b) || a.tid - b.tid || a.name.localeCompare(b.name));
  for (const track of all) track.events.sort((a, b) => a.start - b.start);
  const flows = new Map();
  for (const event of events.filter((event) => event.ph === "s" || event.ph === "f")) {
    const flow = flows.get(event.id) ?? {name: event.name};
    flow[event.ph] = {track: tracks.get(key(event)), at: event.ts};
    flows.set(event.id, flow);
  }
  return {tracks: all, flows: [...flows.values()].filter((flow) => flow.s?.track && flow.f?.track)};
}

function timeline(events) {
  const {tracks, flows} = readTrace(events), canvas = $("timeline");
  const ROW = 18, TOP = 22, all = tracks.flatMap((track) => track.events);
  const end = Math.max(1, ...all.map((event) => event.end));
  let from = 0, to = end, hover = null, chosen = null, hits = new Set(), sought = [], at = -1, label = 0;
  tracks.forEach((track, row) => { track.row = row; });
  const x = (cycle, width) => label + (cycle - from) / (to - from) * (width - label);
  const middle = (track) => TOP + track.row * ROW + ROW / 2;

  function ofFlow(flow) {
    if (!chosen && !hover) return false;
    const event = chosen ?? hover;
    const starts = flow.s.track === event.track && flow.s.at >= event.start && flow.s.at <= event.end;
    const ends = flow.f.track === event.track && flow.f.at >= event.start && flow.f.at <= event.end;
    return starts || ends;
  }

  function draw(context, width) {
    label = Math.min(230, Math.max(96, width * .22));
    const ink = colour("ink"), soft = colour("line"), shades = {};
    for (const kind of ["runs", "waits", "unit", "copy", "barrier"]) shades[kind] = colour(kind);
    context.font = "12px system-ui, sans-serif";
    context.textBaseline = "middle";
    const mark = step((to - from) / (width - label));
    for (let cycle = Math.ceil(from / mark) * mark; cycle <= to; cycle += mark) {
      context.fillStyle = soft;
      context.fillRect(x(cycle, width), TOP, 1, tracks.length * ROW);
      context.fillStyle = ink;
      context.fillText(number(cycle), x(cycle, width) + 2, TOP / 2);
    }
    for (const track of tracks) {
      const y = TOP + track.row * ROW;
      context.fillStyle = ink;
      clipped(context, track.name, 2, y + ROW / 2, label - 8);
      let painted = -1, last = "";
      for (const event of track.events) {
        if (event.end < from) continue;
        if (event.start > to) break;
        const left = Math.max(label, x(event.start, width)), right = Math.min(width, x(event.end, width));
        if (right < painted + .5 && event.kind === last && !hits.has(event)) continue;
        context.fillStyle = hits.has(event) ? colour("hit") : shades[event.kind];
        context.fillRect(left, y + 2, Math.max(right - left - (right - left > 3 ? .5 : 0), .7), ROW - 4);
        if (right - left > 60 && event.kind !== "runs") {
          context.fillStyle = ink;
          clipped(context, event.name, left + 3, y + ROW / 2, right - left - 6);
        }
        painted = right;
        last = event.kind;
      }
    }
    for (const event of [hover, chosen]) {
      if (!event || event.end < from || event.start > to) continue;
      context.strokeStyle = ink;
      context.lineWidth = 1.5;
      const left = Math.max(label, x(event.start, width));
      context.strokeRect(left, TOP + event.track.row * ROW + 1, Math.max(2, Math.min(width, x(event.end, width)) - left), ROW - 2);
    }
    if ($("arrows").checked) drawFlows(context, width);
  }

  function drawFlows(context, width) {
    const seen = flows.filter((flow) => flow.f.at >= from && flow.s.at <= to);
    for (const flow of seen) {
      const mine = ofFlow(flow);
      if (!mine && (chosen || seen.length > 150)) continue;
      const [x0, y0, x1, y1] = [x(flow.s.at, width), middle(flow.s.track), x(flow.f.at, width), middle(flow.f.track)];
      if (x0 < label || x1 < label) continue;
      context.strokeStyle = context.fillStyle = mine ? colour("hit") : colour("dim");
      context.lineWidth = mine ? 2 : .7;
      context.beginPath();
      context.moveTo(x0, y0);
      const bend = Math.max(12, (x1 - x0) / 2);
      context.bezierCurveTo(x0 + bend, y0, x1 - bend, y1, x1, y1);
      context.stroke();
      context.beginPath();
      context.arc(x1, y1, mine ? 3 : 2, 0, 7);
      context.fill();
    }
  }

  const redraw = surface(canvas, TOP + tracks.length * ROW + 4, draw);

  function eventAt(clientX, clientY) {
    const box = canvas.getBoundingClientRect(), track = tracks[Math.floor((clientY - box.top - TOP) / ROW)];
    const width = box.width, slack = (to - from) / (width - label) * 2;
    if (!track || clientX - box.left < label) return null;
    const cycle = from + (clientX - box.left - label) / (width - label) * (to - from);
    let best = null;
    for (const event of track.events) {
      if (event.start > cycle + slack) break;
      if (event.end >= cycle - slack && (!best || event.start >= best.start)) best = event;
    }
    return best;
  }

  function describe(event) {
    const mine = flows.filter((flow) => flow.f.track === event.track && flow.f.at >= event.start && flow.f.at <= event.end);
    const ended = mine.map((flow) => `\nended by ${flow.s.track.name} at cycle ${number(flow.s.at)}`).join("");
    return `${event.name}\n${event.track.name}: cycles ${number(event.start)} to ${number(event.end)} `
      + `(${number(event.end - event.start)})\n${place(event.line)}${ended}`;
  }

  function show(first, last) {
    const size = Math.min(end, Math.max(8, last - first));
    from = Math.max(0, Math.min(first, end - size));
    to = from + size;
    redraw();
  }
  function zoom(factor, about = (from + to) / 2) {
    show(about - (about - from) * factor, about + (to - about) * factor);
  }
  function cycleAt(clientX) {
    const box = canvas.getBoundingClientRect();
    return from + Math.max(0, clientX - box.left - label) / (box.width - label) * (to - from);
  }

  const fingers = new Map();
  let moved = 0;
  canvas.addEventListener("pointerdown", (event) => {
    fingers.set(event.pointerId, event.clientX);
    moved = 0;
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointermove", (event) => {
    const before = fingers.get(event.pointerId);
    if (before === undefined) {
      hover = eventAt(event.clientX, event.clientY);
      showTip(hover && describe(hover), event.clientX, event.clientY);
      redraw();
      return;
    }
    const width = canvas.clientWidth - label, by = (before - event.clientX) / width * (to - from);
    moved += Math.abs(before - event.clientX);
    if (fingers.size === 2) {
      const other = [...fingers].find(([id]) => id !== event.pointerId)[1];
      zoom(Math.max(1, Math.abs(before - other)) / Math.max(1, Math.abs(event.clientX - other)), cycleAt(other));
    } else {
      show(from + by, to + by);
    }
    fingers.set(event.pointerId, event.clientX);
  });
  const lift = (event) => fingers.delete(event.pointerId);
  canvas.addEventListener("pointercancel", lift);
  canvas.addEventListener("pointerup", (event) => {
    lift(event);
    if (moved > 4) return;
    choose(eventAt(event.clientX, event.clientY));
  });
  canvas.addEventListener("pointerleave", () => { hover = null; showTip(""); redraw(); });
  canvas.addEventListener("wheel", (event) => {
    event.preventDefault();
    if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
      const by = event.deltaX / canvas.clientWidth * (to - from);
      show(from + by, to + by);
    } else {
      zoom(Math.exp(event.deltaY / 400), cycleAt(event.clientX));
    }
  }, {passive: false});
  canvas.addEventListener("keydown", (event) => {
    const by = (to - from) / 5, keys = {ArrowLeft: [-by, 0], ArrowRight: [by, 0]};
    if (event.key in keys) show(from + keys[event.key][0], to + keys[event.key][0]);
    else if (event.key === "+" || event.key === "-") zoom(event.key === "+" ? .5 : 2);
    else if (event.key === "Escape") choose(null);
    else return;
    event.preventDefault();
  });

  function choose(event) {
    chosen = event;
    $("details").hidden = !event;
    $("details").textContent = event ? describe(event) : "";
    redraw();
  }
  $("zoom-in").onclick = () => zoom(.5);
  $("zoom-out").onclick = () => zoom(2);
  $("fit").onclick = () => show(0, end);
  $("arrows").onchange = redraw;
  $("search").oninput = () => {
    const wanted = $("search").value.trim().toLowerCase();
    sought = wanted ? all.filter((event) => `${event.name} ${event.track.name} ${place(event.line)}`.toLowerCase().includes(wanted)) : [];
    sought.sort((a, b) => a.start - b.start);
    hits = new Set(sought);
    at = -1;
    $("hits").textContent = wanted ? `${sought.length} found` : "";
    redraw();
  };
  $("search").onkeydown = (event) => {
    if (event.key !== "Enter" || !sought.length) return;
    at = (at + (event.shiftKey ? -1 : 1) + sought.length) % sought.length;
    const found = sought[at], size = Math.max((found.end - found.start) * 4, (to - from) / 4);
    choose(found);
    $("hits").textContent = `${at + 1} of ${sought.length}`;
    show((found.start + found.end - size) / 2, (found.start + found.end + size) / 2);
  };
  $("perfetto").onclick = () => {
    const address = URL.createObjectURL(new Blob([traceText], {type: "application/json"}));
    Object.assign(document.createElement("a"), {href: address, download: "trace.json"}).click();
    setTimeout(() => URL.revokeObjectURL(address));
  };
}

// memory --------------------------------------------------------------------------------------------------------------

function memoryMap(memory) {
  const heading = document.createElement("h3"), canvas = document.createElement("canvas");
  heading.textContent = memory.title;
  $("memories").append(heading, canvas);
  const ROW = memory.bands.length > 64 ? 6 : 16, TOP = 22;
  const last = Math.max(1, data.memories.reduce((most, each) => Math.max(most, ...each.bands.map((band) => band[2].at(-1)[0])), 0)) * 1.02;
  const range = (band) => memory.unit === "columns" ? `columns ${band[0]} to ${band[1] - 1}`
    : `0x${band[0].toString(16)} to 0x${(band[1] - 1).toString(16)}`;
  const shade = (line) => `hsl(${line * 137.5 % 360} 55% ${matchMedia("(prefers-color-scheme: dark)").matches ? 48 : 62}%)`;
  let label = 0;
  const x = (moment, width) => label + moment / last * (width - label);
  surface(canvas, TOP + memory.bands.length * ROW + 2, (context, width) => {
    label = Math.min(230, Math.max(96, width * .22));
    context.font = "12px system-ui, sans-serif";
    context.textBaseline = "middle";
    context.fillStyle = colour("ink");
    const mark = step(last / (width - label));
    for (let moment = 0; moment <= last; moment += mark) context.fillText(number(moment), x(moment, width) + 2, TOP / 2);
    memory.bands.forEach((band, row) => {
      const y = TOP + row * ROW;
      if (ROW > 10) {
        context.fillStyle = colour("ink");
        clipped(context, `${band[3].join(", ")} ${range(band)}`.trim(), 2, y + ROW / 2, label - 8);
      }
      band[2].forEach(([moment, line], i) => {
        context.fillStyle = shade(line);
        const left = x(moment, width), right = x(band[2][i + 1]?.[0] ?? last, width);
        context.fillRect(left, y + .5, Math.max(right - left, .7), ROW - 1);
      });
    });
  });
  const look = (event) => {
    const box = canvas.getBoundingClientRect(), band = memory.bands[Math.floor((event.clientY - box.top - TOP) / ROW)];
    const moment = (event.clientX - box.left - label) / (box.width - label) * last;
    if (!band || moment < 0) return showTip("");
    const written = band[2].findLast(([when]) => when <= moment);
    const names = band[3].length ? `${band[3].join(", ")}: ` : "";
    const by = written ? `written at instruction ${number(written[0])} by\n${place(written[1])}` : "nothing has written it";
    showTip(`${names}${range(band)}\n${by}`, event.clientX, event.clientY);
  };
  canvas.addEventListener("pointermove", look);
  canvas.addEventListener("pointerdown", look);
  canvas.addEventListener("pointerleave", () => showTip(""));
}

timeline(JSON.parse(traceText).traceEvents);
data.memories.forEach(memoryMap);
