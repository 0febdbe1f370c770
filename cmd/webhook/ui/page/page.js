import {reported} from './explain.js';
import {Table} from './table.js';
import {address, clock, count, counted, decided, element, name, rate, say, show, span} from './text.js';
import {Timeline} from './timeline.js';

const lists = [
  {by: 'namespace', one: 'Namespace', many: 'Namespaces'},
  {by: 'source', one: 'Source', many: 'Sources'},
  {by: 'object', one: 'Object', many: 'Objects'},
  {by: 'reason', one: 'Reason', many: 'Reasons'},
  {by: 'policy', one: 'Policy or quota', many: 'Policies'},
  {by: 'quota', one: 'Quota', many: 'Quotas'},
];
const filters = ['namespace', 'source', 'reason', 'policy'];
const at = id => document.getElementById(id);

// Page follows the writes of the place in its address: a list with its filter, or the report on an object.
class Page {
  constructor() {
    this.timeline = new Timeline(at('timeline'), at('timeline-text'), at('timeline-table'));
    this.table = new Table(at('table'), sort => this.sortBy(sort));
    this.sort = 'total';
    this.paused = false;
    this.asked = 0; // how many explain requests were sent
    addEventListener('hashchange', () => this.go(true));
    // Browsers limit the connections to one address, so hidden tabs use none.
    addEventListener('visibilitychange', () => document.hidden ? this.stream.close() : this.ended || this.follow());
    addEventListener('keydown', event => event.key === 'Escape' && !at('explained').hidden && at('close').click());
    at('skip').addEventListener('click', event => {
      event.preventDefault();
      at('list').focus();
    });
    at('pause').addEventListener('click', () => this.pause());
    at('again').addEventListener('click', () => this.explain());
    this.go(false);
  }

  // go shows the place in the address.
  go(moved) {
    const place = Object.fromEntries(new URLSearchParams(location.hash.slice(1)));
    this.list = lists.find(({by}) => by === place.by) ?? lists[0];
    this.filter = Object.fromEntries(filters.filter(f => place[f]).map(f => [f, place[f]]));
    const before = this.object;
    this.object = place.kind && place.name ? {in: place.in || 'default', kind: place.kind, name: place.name} : undefined;
    this.table.clear();
    this.links();
    this.follow();
    this.explain();
    if (moved) at(this.object ? 'explained-title' : 'list').focus();
    if (moved && before && !this.object) this.returnTo = address({by: 'object', ...this.filter, ...before});
  }

  // links shows the current place, and links to other places.
  links() {
    say(at('list'), `${this.list.many}${this.within()}`);
    at('lists').replaceChildren(...lists.map(({by, many}) => element('li', {},
      element('a', {href: address({by, ...this.filter}), 'aria-current': by === this.list.by ? 'true' : undefined}, many))));
    const crumbs = [element('a', {href: address({by: 'namespace'})}, 'All')];
    let selected = {};
    for (const [f, value] of Object.entries(this.filter)) {
      selected = {...selected, [f]: value};
      crumbs.push(element('a', {href: address({by: f === 'source' ? 'object' : 'source', ...selected})}, name(value)));
    }
    at('crumbs').replaceChildren(...crumbs.map(link => element('li', {}, link)));
    at('close').setAttribute('href', address({by: this.list.by, ...this.filter}));
  }

  within() {
    const values = Object.values(this.filter);
    return values.length > 0 ? ` in ${values.join(' › ')}` : '';
  }

  sortBy(sort) {
    this.sort = sort;
    this.follow();
  }

  pause() {
    this.paused = !this.paused;
    at('pause').setAttribute('aria-pressed', String(this.paused));
    if (!this.paused && this.view) this.show(this.view);
  }

  // follow opens a stream of the list.
  follow() {
    this.stream?.close();
    this.table.head(this.list, this.sort, `${this.list.many}${this.within()}: ${this.list.by === 'quota' ? 'the emptiest first' : 'Event writes per second'}`);
    const stream = new EventSource(`live?${new URLSearchParams({by: this.list.by, sort: this.sort, ...this.filter})}`);
    this.stream = stream;
    this.fresh = true;
    stream.addEventListener('view', event => {
      this.view = JSON.parse(event.data);
      if (!this.paused || this.fresh) this.show(this.view);
      this.fresh = false;
    });
    stream.addEventListener('end', () => this.end());
    stream.addEventListener('error', () => {
      if (this.stream === stream && stream.readyState === EventSource.CLOSED) this.end();
      else if (this.stream === stream) say(at('status'), 'No answer from eventquota ui. Retrying.');
    });
  }

  // end says that the command has ended.
  end() {
    this.stream.close();
    this.ended = true;
    say(at('status'), 'eventquota ui has ended. Run it again, and open the address that it prints.');
  }

  show(view) {
    const known = view.seconds > 0;
    say(at('scope'), view.scope ? `in namespace ${view.scope}` : '');
    this.state(view);
    this.rates(view, known);
    this.timeline.show(view.timeline);
    this.refused(view);
    this.table.show(view.rows, known);
    const more = [];
    if (view.rows.length === 0) more.push('None.');
    if (view.more > 0) more.push(`${count(view.more)} more are not shown.`);
    if (view.others > 0) more.push(`There are too many to track: ${counted(view.others, 'write is', 'writes are')} in no row.`);
    show(at('more'), more.join(' '));
    if (this.returnTo) {
      [...at('table').querySelectorAll('tbody a')].find(link => link.hash === this.returnTo)?.focus();
      this.returnTo = undefined;
    }
  }

  // state says how complete and current the figures are. Only changes are announced.
  state(view) {
    const replicas = counted(view.replicas, 'replica', 'replicas');
    let status = `Following ${replicas}.`;
    if (view.problem) status = 'No answer from eventquota in the cluster. Retrying.';
    else if (view.partial) status = 'Redis did not answer in full: counts of other replicas may be missing.';
    else if (view.silent > 0) status = `${count(view.silent)} of ${replicas} ${view.silent === 1 ? 'has' : 'have'} not reported for 10 s.`;
    say(at('status'), status);
    at('status').classList.toggle('alarm', status !== `Following ${replicas}.`);
    say(at('seen'), view.at.startsWith('0001') ? '' : `Updated at ${clock(view.at)}`);
    show(at('problem'), view.problem ?? '');
  }

  rates(view, known) {
    const figures = [['In', decided(view.rates), 'all'], ['Stored', view.rates.admitted, 'admitted'], ['Merged', view.rates.merged, 'merged'], ['Dropped', view.rates.dropped, 'dropped']];
    if (!view.scope) figures.push(['Own writes', view.rates.settled ?? 0, 'own']);
    if (at('rates').children.length !== figures.length) {
      at('rates').replaceChildren(...figures.map(([title, , kind]) => element('div', {class: kind}, element('dt', {}, title), element('dd'))));
    }
    figures.forEach(([, per], i) => say(at('rates').children[i].lastChild, rate(per, known)));
  }

  // refused shows the buckets that refuse Events now, and those that will next.
  refused(view) {
    const all = [...view.refusing, ...view.next];
    const now = JSON.stringify(all.map(b => [b.policy, b.name, b.for, b.source, this.when(b, view)]));
    if (now === this.refusedBefore) return;
    this.refusedBefore = now;
    const items = all.map(b => element('li', {class: b.refuses ? 'alarm' : undefined}, `${this.when(b, view)}: `, name(`${b.name}${b.for ? ` of ${b.for}` : ''}: ${b.policy}`),
      ...(b.source ? [', most by ', name(b.source)] : [])));
    at('next').replaceChildren(...(items.length > 0 ? items : [element('li', {}, 'Nothing is refused now, or will be within an hour at these rates.')]));
  }

  when(bucket, view) {
    const what = bucket.reserve ? 'Normal Events' : 'Events';
    if (!bucket.refuses) return `${what} in ${span(bucket.emptyIn)}`;
    return bucket.rates.dropped > 0 && view.seconds > 0 ? `${what} now, ${rate(bucket.rates.dropped, true)} per second` : `${what} next`;
  }

  // explain fetches the report on the object in the address.
  async explain() {
    const asked = ++this.asked;
    at('explained').hidden = !this.object;
    if (!this.object) return;
    say(at('explained-title'), `Events about ${this.object.kind} ${this.object.in}/${this.object.name}`);
    at('report').setAttribute('aria-busy', 'true');
    at('report').replaceChildren(element('p', {}, 'Loading ...'));
    let report;
    try {
      const response = await fetch(`explain?${new URLSearchParams(this.object)}`);
      report = response.ok ? await response.json() : {problem: await response.text()};
    } catch (problem) {
      report = {problem: `eventquota ui does not answer: ${problem.message}`};
    }
    if (asked !== this.asked) return; // a newer request was sent
    at('report').replaceChildren(...reported(report));
    at('report').removeAttribute('aria-busy');
  }
}

new Page();
