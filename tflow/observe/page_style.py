"""How reports look, in light and dark surroundings, and what they do when one points at a chart. All of it goes into the page."""

from __future__ import annotations

from tflow.drawing.chart import HUES

Palette = dict[str, str]
LIGHT: Palette = {
    "page": "#f6f8fa",
    "card": "#ffffff",
    "line": "#d0d7de",
    "ink": "#1f2328",
    "soft": "#59636e",
    "link": "#0969da",
    "good": "#1a7f37",
    "bad": "#cf222e",
    "warn": "#9a6700",
    "mark": "#fff8c5",
    "grid": "#e6eaef",
    "s0": "#0969da",
    "s1": "#bc4c00",
    "s2": "#1a7f37",
    "s3": "#8250df",
    "s4": "#bf3989",
    "s5": "#0b7285",
    "s6": "#9a6700",
    "s7": "#57606a",
}
DARK: Palette = {
    "page": "#010409",
    "card": "#0d1117",
    "line": "#30363d",
    "ink": "#e6edf3",
    "soft": "#9198a1",
    "link": "#58a6ff",
    "good": "#3fb950",
    "bad": "#ff7b72",
    "warn": "#d29922",
    "mark": "#2b2111",
    "grid": "#21262d",
    "s0": "#58a6ff",
    "s1": "#f0883e",
    "s2": "#3fb950",
    "s3": "#bc8cff",
    "s4": "#f778ba",
    "s5": "#39c5cf",
    "s6": "#d29922",
    "s7": "#9198a1",
}
LAYOUT = """
*{box-sizing:border-box}
html{color-scheme:light dark;-webkit-text-size-adjust:100%}
body{margin:0;background:var(--page);color:var(--ink);
font:15px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"Noto Sans",sans-serif}
main{max-width:1180px;margin:0 auto;padding:28px 20px 60px}
h1{font-size:26px;line-height:1.25;margin:0 0 4px;overflow-wrap:anywhere}
h2{font-size:18px;margin:0 0 10px}
h3{font-size:15px;margin:18px 0 6px;overflow-wrap:anywhere}
p{margin:0 0 10px;max-width:75ch;overflow-wrap:anywhere}.work+p,.plan+p,.big+p{margin-top:12px}
section{background:var(--card);border:1px solid var(--line);border-radius:12px;padding:18px 20px;margin:18px 0;min-width:0}
.quiet{color:var(--soft)}.verdict{font-size:17px;font-weight:600}
.state{display:inline-block;border:1px solid currentColor;border-radius:999px;padding:0 9px;font-size:13px;font-weight:600}
.finished{color:var(--good)}.failed,.killed{color:var(--bad)}.interrupted,.running,.unknown{color:var(--warn)}
.tiles{display:grid;grid-template-columns:repeat(auto-fill,minmax(150px,1fr));gap:12px;margin:18px 0;padding:0;list-style:none}
.tiles li{background:var(--card);border:1px solid var(--line);border-radius:12px;padding:12px 14px;min-width:0}
.tiles b{display:block;font-size:22px;line-height:1.3;font-variant-numeric:tabular-nums;overflow-wrap:anywhere}
.tiles span{display:block;color:var(--soft);font-size:13px;overflow-wrap:anywhere}
.warning{border-left:3px solid var(--warn);padding:2px 0 2px 10px;margin:6px 0}
.legend{display:flex;flex-wrap:wrap;gap:4px 18px;margin:0 0 10px;padding:0;list-style:none;font-size:14px}
.legend li{display:flex;align-items:center;gap:7px;overflow-wrap:anywhere;min-width:0}
.legend svg{flex:none;width:24px;height:10px}
.big{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,460px),1fr));gap:18px}
.small{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,270px),1fr));gap:18px}
.scroll{overflow-x:auto;max-width:100%}
table{border-collapse:collapse;font-size:14px;font-variant-numeric:tabular-nums;width:100%}
th,td{text-align:left;padding:5px 14px 5px 0;border-bottom:1px solid var(--line);vertical-align:top}
th{color:var(--soft);font-weight:600;white-space:nowrap}
.n{text-align:right;white-space:nowrap}
code,.code{font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace;font-size:13px;
overflow-wrap:anywhere}
td:first-child.code{overflow-wrap:normal;white-space:nowrap}
.changed{background:var(--mark)}
details{margin:10px 0}summary{cursor:pointer;color:var(--link);font-weight:600}
.work{display:grid;grid-template-columns:minmax(0,40ch) 1fr 6ch;gap:4px 12px;align-items:center;font-size:14px;margin:3px 0}
.bar{background:var(--grid);border-radius:4px;height:12px;overflow:hidden}
.bar i{display:block;height:100%;border-radius:4px;background:var(--hue)}
.plan svg,.plan img{height:auto;display:block;max-width:100%;margin:0 auto}
.down{display:none}
.chart{display:block;width:100%;height:auto;overflow:visible}
.chart text,.tip{font-family:system-ui,-apple-system,"Segoe UI",Roboto,"Noto Sans",sans-serif}
.c-title{fill:var(--ink);font-weight:600}.c-tick{fill:var(--soft)}
.c-grid{stroke:var(--grid);fill:none}.c-axis{stroke:var(--line);fill:none}
.c-level{stroke:var(--soft);fill:none;stroke-dasharray:4 4}
.c-line{fill:none;stroke:var(--hue);stroke-width:2;stroke-linejoin:round}
.c-faint{fill:none;stroke:var(--hue);stroke-width:1;opacity:.35}
.c-band{fill:var(--hue);opacity:.18}.c-dot{fill:var(--hue)}
.c-hair{stroke:var(--soft);visibility:hidden}
.tip{position:fixed;pointer-events:none;background:var(--card);color:var(--ink);border:1px solid var(--line);border-radius:8px;
padding:6px 10px;font-size:13px;line-height:1.4;box-shadow:0 2px 10px #0003;max-width:280px;z-index:9}
.tip i{display:inline-block;width:9px;height:9px;border-radius:50%;margin-right:6px}
footer{color:var(--soft);font-size:13px;margin-top:24px}
@media (max-width:760px){main{padding:18px 10px 40px}section{padding:14px 12px}h1{font-size:21px}
.right{display:none}.down{display:block}
.work{grid-template-columns:1fr 6ch}.work .bar{grid-column:1/-1;order:1}}
@media print{body{background:none}section,.tiles li{break-inside:avoid}}
"""
SCRIPT = """
document.querySelectorAll('svg.chart').forEach(svg=>{
const d=JSON.parse(svg.dataset.chart),[l,t,r,b]=d.f,hair=svg.querySelector('.c-hair');
const tip=document.createElement('div');tip.className='tip';tip.hidden=true;document.body.append(tip);
const show=v=>Math.abs(v)>=1e4||v&&Math.abs(v)<1e-3?v.toPrecision(3):String(+v.toPrecision(4));
svg.addEventListener('pointermove',e=>{
const box=svg.getBoundingClientRect(),px=(e.clientX-box.left)/box.width*svg.viewBox.baseVal.width;
if(px<l-4||px>r+4||!d.s.length){leave();return}
const x=d.x[0]+(px-l)/(r-l)*(d.x[1]-d.x[0]);tip.textContent='';let at=null;
d.s.forEach(s=>{let n=s.p[0];s.p.forEach(p=>{if(Math.abs(p[0]-x)<Math.abs(n[0]-x))n=p});
if(at===null||Math.abs(n[0]-x)<Math.abs(at-x))at=n[0];
const row=document.createElement('div'),dot=document.createElement('i');dot.style.background=`var(--s${s.h%HUES})`;
row.append(dot,`${s.n} ${show(n[1])}`);tip.append(row)});
const head=document.createElement('div');head.textContent=`${Math.round(at).toLocaleString('en')} ${d.l}`;tip.prepend(head);
const hx=l+(at-d.x[0])/(d.x[1]-d.x[0])*(r-l);
for(const k of ['x1','x2'])hair.setAttribute(k,hx);hair.setAttribute('y1',t);hair.setAttribute('y2',b);
hair.style.visibility='visible';tip.hidden=false;
tip.style.left=Math.max(4,Math.min(e.clientX+14,innerWidth-tip.offsetWidth-8))+'px';
tip.style.top=Math.max(4,e.clientY-tip.offsetHeight-12)+'px'});
const leave=()=>{tip.hidden=true;hair.style.visibility='hidden'};
svg.addEventListener('pointerleave',leave)});
""".replace("HUES", str(HUES))


def style() -> str:
    """The style sheet."""
    hues = "".join(f".s{hue}{{--hue:var(--s{hue})}}" for hue in range(HUES))
    return f":root{{{variables(LIGHT)}}}@media (prefers-color-scheme:dark){{:root{{{variables(DARK)}}}}}{hues}{LAYOUT}"


def variables(palette: Palette) -> str:
    return "".join(f"--{name}:{colour};" for name, colour in palette.items())
