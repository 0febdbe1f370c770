import {count, counted, element, name, span} from './text.js';

const mostRows = 100; // of a table

// table makes a table that may be wider than the page. The first cell of a row is a name.
function table(caption, titles, rows) {
  const more = rows.length - mostRows;
  const body = rows.slice(0, mostRows).map(([first, ...cells]) => element('tr', {}, element('th', {scope: 'row'}, name(first)),
    ...cells.map(cell => element('td', {}, cell instanceof Node ? cell : name(cell)))));
  if (more > 0) body.push(element('tr', {}, element('td', {colspan: titles.length}, `and ${count(more)} more`)));
  return element('div', {class: 'scroll', role: 'region', tabindex: '0', 'aria-label': caption}, element('table', {}, element('caption', {}, caption),
    element('thead', {}, element('tr', {}, ...titles.map(title => element('th', {scope: 'col'}, title)))), element('tbody', {}, ...body)));
}

// until formats the time left until a moment, if there is one.
function until(at, now) {
  if (!at) return '–';
  const seconds = (Date.parse(at) - Date.parse(now)) / 1000;
  return seconds > 0 ? span(Math.ceil(seconds)) : 'now';
}

function tallied(tallies = []) {
  return element('ul', {class: 'tallies'}, ...tallies.map(t => element('li', {}, `${count(t.count)} `, name(t.what || 'others'))));
}

function source(s, now) {
  const who = `${s.component || 'a source without a name'}${s.host ? ` on ${s.host}` : ''}${s.uid ? ` (object ${s.uid})` : ''}`;
  const parts = [element('h3', {}, name(who), ' as written by ', name(s.writer))];
  for (const p of s.policies ?? []) parts.push(element('p', {}, name(p.name), ' governs ', name(p.reasons.join(', ')), `: ${p.why}`));
  parts.push(table('Its Events', ['Event', 'Type', 'Reason', 'Count', 'Merged', 'Not yet written', 'Written in'], (s.events ?? []).map(e => [
    e.name || '(not found)', e.type || '–', e.reason, count(e.count), e.known ? count(e.merged) : '–', e.known ? count(e.pending) : '–', until(e.due, now)])));
  if (s.buckets) {
    parts.push(table('Its limits', ['Limit', 'Of', 'For', 'Tokens', 'Next token in'], s.buckets.map(b => [
      b.bucket, b.policy, b.for || '–', `${count(b.tokens)} of ${count(b.burst)}${b.reserve ? `, ${count(b.reserve)} for Warnings` : ''}`, until(b.next, now)])));
  }
  return parts;
}

// reported makes the elements for the report on an object.
export function reported(report) {
  if (report.problem) return [element('p', {class: 'alarm'}, report.problem)];
  const now = report.store.at;
  const dropped = report.dropped ?? [];
  const parts = [element('p', {}, `By store ${report.store.name} at ${new Date(now).toLocaleTimeString('en-GB')}: ` +
    `${counted(report.sources.length, 'source', 'sources')}, ${dropped.length > 0 ? `${count(dropped.reduce((sum, d) => sum + d.count, 0))} dropped` : 'nothing dropped'}.`)];
  parts.push(...report.sources.flatMap(s => source(s, now)));
  if (dropped.length > 0) {
    parts.push(element('h3', {}, 'Dropped'), table('What its limits have dropped, of any object', ['By', 'Of', 'Dropped', 'About', 'Since', 'Not yet written', 'Reasons', 'Sources'],
      dropped.map(d => [d.bucket || '–', d.policy || 'a replica', count(d.count), d.about, new Date(d.since).toLocaleTimeString('en-GB'), count(d.pending), tallied(d.reasons), tallied(d.sources)])));
  }
  for (const note of report.notes ?? []) parts.push(element('p', {class: 'note'}, `Note: ${note}`));
  return parts;
}
