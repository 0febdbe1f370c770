import {clock, count, decided, element, rate, say} from './text.js';

const width = 300, height = 100; // of the picture

// Timeline shows the rates of writes over time as a picture, in words and as a table.
export class Timeline {
  constructor(picture, words, details) {
    Object.assign(this, {picture, words, details});
    this.paths = ['admitted', 'merged', 'dropped'].map(kind => {
      const path = document.createElementNS('http://www.w3.org/2000/svg', 'path');
      path.setAttribute('class', kind);
      picture.append(path);
      return {kind, path};
    });
    this.points = [];
    details.addEventListener('toggle', () => this.list());
  }

  // show draws points of equal width, oldest on the left.
  show(points) {
    this.points = points;
    const most = Math.max(...points.map(p => decided(p.rates)), 0);
    const step = width / Math.max(points.length, 30);
    const below = points.map(() => 0);
    for (const {kind, path} of this.paths) {
      let drawn = '';
      points.forEach((p, i) => {
        const high = most > 0 && p.seconds > 0 ? p.rates[kind] / most * height : 0;
        if (high > 0) drawn += `M${i * step} ${height - below[i]}h${step}v${-high}h${-step}z`;
        below[i] += high;
      });
      path.setAttribute('d', drawn);
    }
    this.describe(most);
    this.list();
  }

  describe(most) {
    const known = this.points.filter(p => p.seconds > 0);
    if (known.length === 0) {
      say(this.words, 'The timeline starts at the second update.');
      return;
    }
    const peak = known.findLast(p => decided(p.rates) === most), last = known.at(-1);
    say(this.words, `From ${clock(this.points[0].at)} to ${clock(last.at)}: peak ${rate(most, true)} per second, at ${clock(peak.at)}; ` +
      `last ${rate(decided(last.rates), true)}, of which ${rate(last.rates.admitted, true)} stored, ${rate(last.rates.merged, true)} merged and ` +
      `${rate(last.rates.dropped, true)} dropped.`);
  }

  // list makes the table, newest first, while it is open.
  list() {
    this.details.querySelector('table')?.remove();
    if (!this.details.open) return;
    const rows = this.points.slice(-60).reverse().map(p => element('tr', {}, element('th', {scope: 'row'}, clock(p.at)),
      ...[decided(p.rates), p.rates.admitted, p.rates.merged, p.rates.dropped].map(per => element('td', {}, rate(per, p.seconds > 0)))));
    this.details.append(element('table', {},
      element('caption', {}, `The last ${count(rows.length)} updates: Event writes per second`),
      element('thead', {}, element('tr', {}, ...['Time', 'In', 'Stored', 'Merged', 'Dropped'].map(title => element('th', {scope: 'col'}, title)))),
      element('tbody', {}, ...rows)));
  }
}
