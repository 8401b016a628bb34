"""The style sheet every report carries inline; colours are variables, so dark mode needs no second chart."""

from __future__ import annotations

CSS = """
:root { color-scheme: light dark;
  --paper:#fbfbf9; --card:#ffffff; --ink:#1b1f24; --ink-2:#5a6472; --line:#e2e4e1; --bar:#c3c9d1;
  --accent:#0b7a75; --accent-soft:#d5efec; --hole:#f0a020; --warn-bg:#fff4dc; --warn-ink:#7a4b00; }
@media (prefers-color-scheme: dark) { :root {
  --paper:#14171a; --card:#1b1f23; --ink:#e8eaed; --ink-2:#9aa5b1; --line:#2d3339; --bar:#4b5560;
  --accent:#3cc9bf; --accent-soft:#123d3b; --hole:#f0a020; --warn-bg:#3a2c10; --warn-ink:#ffd98a; } }
* { box-sizing:border-box; }
html { -webkit-text-size-adjust:100%; }
body { margin:0; background:var(--paper); color:var(--ink);
  font:16px/1.55 system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",Arial,sans-serif; }
main { max-width:1080px; margin:0 auto; padding:56px 32px 72px; }
.eyebrow { margin:0 0 10px; font-size:13px; font-weight:600; letter-spacing:.09em; text-transform:uppercase;
  color:var(--accent); }
h1 { margin:0 0 14px; font-size:34px; line-height:1.18; letter-spacing:-.018em; font-weight:680;
  overflow-wrap:anywhere; }
.lead { margin:0; max-width:46em; text-wrap:pretty; font-size:18px; color:var(--ink-2); }
.lead b { color:var(--ink); font-weight:620; }
section { margin-top:52px; }
h2 { margin:0 0 6px; font-size:21px; letter-spacing:-.01em; font-weight:650; }
h3 { margin:28px 0 4px; font-size:16px; font-weight:640; }
p { text-wrap:pretty; max-width:46em; margin:6px 0 14px; }
.intro { color:var(--ink-2); }
code { font:13.5px/1.5 ui-monospace,SFMono-Regular,Menlo,Consolas,monospace; background:var(--line);
  padding:1px 5px; border-radius:4px; overflow-wrap:anywhere; }
.tiles { display:grid; grid-template-columns:repeat(auto-fit,minmax(200px,1fr)); gap:14px; margin-top:32px; }
.tile { background:var(--card); border:1px solid var(--line); border-radius:10px; padding:18px 20px 16px; }
.tile .value { font-size:26px; line-height:1.2; font-weight:660; letter-spacing:-.02em; overflow-wrap:anywhere;
  font-variant-numeric:tabular-nums; }
.tile .name { margin-top:4px; font-size:14px; font-weight:600; }
.tile .note { font-size:13px; color:var(--ink-2); }
.tile.main .value { color:var(--accent); }
.scroll { overflow-x:auto; }
.tall { max-height:640px; overflow-y:auto; background:var(--card);
  border:1px solid var(--line); border-radius:10px; }
.tall th { position:sticky; top:0; background:var(--card); box-shadow:inset 0 -1.5px 0 var(--line); }
.under { margin:10px 0 0; font-size:13px; color:var(--ink-2); max-width:60em; }
table { width:100%; border-collapse:collapse; font-size:14.5px; font-variant-numeric:tabular-nums; }
th { padding:8px 12px; text-align:left; font-size:12.5px; font-weight:600; color:var(--ink-2);
  vertical-align:bottom; border-bottom:1.5px solid var(--line); white-space:nowrap; }
td { padding:8px 12px; border-bottom:1px solid var(--line); vertical-align:middle; }
th.num, td.num { text-align:right; white-space:nowrap; }
th.wide, td.wide { width:34%; }
tr.main td { font-weight:620; background:var(--accent-soft); }
td small { display:block; font-size:12.5px; font-weight:400; color:var(--ink-2); }
.bar { height:10px; border-radius:3px; background:var(--bar); min-width:2px; }
tr.main .bar { background:var(--accent); }
.notice { margin:14px 0; padding:11px 16px; border-left:4px solid var(--hole); border-radius:4px;
  background:var(--warn-bg); color:var(--warn-ink); max-width:none; }
figure { margin:16px 0 0; }
figcaption { margin-top:8px; font-size:13px; color:var(--ink-2); max-width:60em; }
.grid { display:grid; gap:14px; }
.card { background:var(--card); border:1px solid var(--line); border-radius:10px; padding:12px 14px; }
.card .head { display:flex; justify-content:space-between; gap:8px; align-items:baseline; font-size:13.5px;
  font-weight:600; overflow:hidden; }
.card .head span:first-child { overflow:hidden; text-overflow:ellipsis; white-space:nowrap; }
.card .head span:last-child { font-weight:400; color:var(--ink-2); font-size:12.5px; white-space:nowrap;
  font-variant-numeric:tabular-nums; }
.sheet { display:grid; gap:10px; align-items:center; min-width:720px; font-size:12.5px; color:var(--ink-2);
  text-align:center; font-variant-numeric:tabular-nums; }
.sheet span { display:block; text-align:left; }
img.px { display:block; width:100%; image-rendering:pixelated;
  border:1px solid var(--line); border-radius:3px; }
img.map { display:block; image-rendering:pixelated; border:1px solid var(--line); border-radius:3px; }
svg { display:block; width:100%; height:auto; overflow:visible; }
.chart svg, .chart img { min-width:720px; }
svg text { fill:var(--ink-2); font:11px system-ui,-apple-system,"Segoe UI",Roboto,Arial,sans-serif;
  font-variant-numeric:tabular-nums; }
svg .axis { stroke:var(--line); stroke-width:1; }
svg .observed { fill:var(--bar); }
svg .filled { fill:none; stroke:var(--accent); stroke-width:1.8; stroke-linejoin:round; }
svg .filled-bar { fill:var(--accent); }
svg .line { fill:none; stroke:var(--accent); stroke-width:1.8; stroke-linejoin:round; stroke-linecap:round; }
svg .mark { fill:var(--card); stroke:var(--accent); stroke-width:1.8; }
.key { display:flex; flex-wrap:wrap; gap:6px 20px; margin:10px 0 12px; font-size:13px; color:var(--ink-2); }
.key i { display:inline-block; width:12px; height:12px; margin-right:7px; border-radius:2px;
  vertical-align:-1px; border:1px solid var(--line); }
dl { display:grid; grid-template-columns:max-content 1fr; gap:6px 24px; margin:12px 0 0; font-size:14.5px; }
dt { color:var(--ink-2); } dd { margin:0; overflow-wrap:anywhere; font-variant-numeric:tabular-nums; }
@media (max-width:640px) { main { padding:32px 16px 48px; } h1 { font-size:27px; }
  th.wide, td.wide { display:none; } th, td { padding:8px 6px; }
  dl { grid-template-columns:1fr; gap:0; } dd { margin-bottom:8px; } }
@media print { body { background:#fff; } .tall { max-height:none; } section { break-inside:avoid-page; } }
"""
