import {address, count, decided, element, name, rate, say, short, span} from './text.js';

// A column has a title, a sort key if it can be sorted by, and a function for the text of a cell.
const figures = [
  {title: 'In', sort: 'total', cell: (row, known) => rate(decided(row.rates), known)},
  {title: 'Stored', sort: 'admitted', cell: (row, known) => rate(row.rates.admitted, known)},
  {title: 'Merged', sort: 'merged', cell: (row, known) => rate(row.rates.merged, known)},
  {title: 'Dropped', sort: 'dropped', cell: (row, known) => rate(row.rates.dropped, known)},
  {title: 'Total', cell: row => short(row.total.admitted + row.total.merged + row.total.dropped)},
];
const levels = [
  {title: 'Left', sort: 'total', emptiest: true, cell: ({bucket}) => `${bucket.tokens === undefined ? '?' : count(bucket.tokens)} of ${count(bucket.burst)}`},
  {title: 'Empty in', cell: ({bucket}) => bucket.refuses ? 'refuses' : bucket.emptyIn === undefined ? '–' : span(bucket.emptyIn)},
  {title: 'Dropped', sort: 'dropped', cell: (row, known) => rate(row.rates.dropped, known)},
];

// Table is the list of rows. Rows change in place, and keep their order while they have the focus or the pointer, so that a row does
// not move when the user is about to open it.
export class Table {
  // sortBy is called with the key of a column.
  constructor(table, sortBy) {
    this.table = table;
    this.body = table.tBodies[0];
    this.sortBy = sortBy;
    this.rows = new Map(); // by their keys
    this.drawn = '';
  }

  // head draws the header of a list.
  head(list, sort, caption) {
    say(this.table.caption, caption);
    const now = `${list.by} ${sort}`;
    if (now === this.drawn) return;
    const by = this.drawn.split(' ')[0];
    this.drawn = now;
    this.columns = list.by === 'quota' ? levels : figures;
    this.table.classList.toggle('levels', list.by === 'quota');
    const focused = document.activeElement?.dataset.sort;
    this.table.tHead.replaceChildren(element('tr', {}, element('th', {scope: 'col'}, list.one), ...this.columns.map(column => {
      if (!column.sort) return element('th', {scope: 'col'}, column.title);
      const button = element('button', {type: 'button', 'data-sort': column.sort}, column.title);
      button.addEventListener('click', () => this.sortBy(column.sort));
      const sorted = column.emptiest ? sort !== 'dropped' : column.sort === sort;
      return element('th', {scope: 'col', 'aria-sort': sorted ? (column.emptiest ? 'ascending' : 'descending') : undefined}, button);
    })));
    this.table.tHead.querySelector(`[data-sort="${focused}"]`)?.focus();
    if (by !== list.by) this.clear();
    this.sorted = false;
  }

  clear() {
    this.rows.clear();
    this.body.replaceChildren();
  }

  // held reports whether rows must keep their order.
  held() {
    return this.sorted && (this.body.contains(document.activeElement) || this.body.matches(':hover'));
  }

  // show shows rows in order. known is false if there are no rates.
  show(rows, known) {
    const here = this.body.contains(document.activeElement);
    if (this.held()) {
      const places = new Map([...this.rows.keys()].map((key, i) => [key, i]));
      const place = row => places.get(row.key) ?? places.size;
      rows = rows.toSorted((a, b) => place(a) - place(b));
    }
    const shown = new Map(rows.map(row => [row.key, this.rows.get(row.key) ?? this.row(row)]));
    for (const [key, {tr}] of this.rows) {
      if (!shown.has(key)) tr.remove();
    }
    rows.forEach((row, i) => {
      const {tr, cells, fill} = shown.get(row.key);
      if (this.body.rows[i] !== tr) this.body.insertBefore(tr, this.body.rows[i] ?? null);
      cells.forEach((cell, j) => say(cell, this.columns[j].cell(row, known)));
      fill(row);
    });
    this.rows = shown;
    this.sorted = true;
    if (here && !this.body.contains(document.activeElement)) this.table.closest('section').querySelector('h2').focus(); // the row with the focus has disappeared
  }

  // row makes a row without figures.
  row({name: title, into, bucket}) {
    const cells = this.columns.map(() => element('td'));
    const link = into ? element('a', {href: address(into)}, name(title)) : name(title);
    const head = element('th', {scope: 'row'}, link);
    let fill = () => {};
    if (bucket) {
      const level = element('span', {class: 'level', 'aria-hidden': 'true'}), source = name(''), most = element('span', {class: 'most'}, 'most by ', source);
      head.append(level, most);
      fill = row => {
        const left = row.bucket.tokens === undefined || row.bucket.burst <= 0 ? 1 : row.bucket.tokens / row.bucket.burst;
        level.style.setProperty('--left', String(left));
        head.parentElement.classList.toggle('refuses', row.bucket.refuses);
        say(source, row.bucket.source);
        most.hidden = row.bucket.source === '';
      };
    }
    return {tr: element('tr', {}, head, ...cells), cells, fill};
  }
}
