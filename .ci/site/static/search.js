// Searches the sections of all pages, which index.js has. A section is found if each word of the query begins a word of it.
(() => {
  const query = document.getElementById('query'), results = document.getElementById('results');
  const root = new URL('.', document.currentScript.src);
  const most = 12, around = 90;
  const narrow = matchMedia('(max-width: 800px)').matches;
  if (narrow) document.querySelector('nav details').open = false;

  const sections = (window.sections || []).map(s => ({...s, text: ` ${s.text}`, low: ` ${s.text.toLowerCase()}`, lowTitle: ` ${s.title} ${s.page}`.toLowerCase()}));
  const escaped = s => s.replace(/[.*+?^${}()|[\]\\]/g, '\\$&');

  // found has the sections for some words, the best first: words in titles count more than words in text.
  const found = words => {
    const patterns = words.map(w => new RegExp(`(^|[^\\p{L}\\p{N}])${escaped(w)}`, 'gu'));
    const scored = [];
    for (const s of sections) {
      let score = 0;
      for (const p of patterns) {
        const inTitle = (s.lowTitle.match(p) || []).length, inText = (s.low.match(p) || []).length;
        if (inTitle + inText === 0) { score = 0; break; }
        score += 20 * inTitle + Math.min(inText, 5);
      }
      if (score > 0) scored.push({s, score, at: Math.max(0, s.low.search(patterns[0]))});
    }
    return scored.sort((a, b) => b.score - a.score).slice(0, most);
  };

  const show = () => {
    const words = query.value.toLowerCase().split(/\s+/).filter(Boolean);
    results.replaceChildren();
    results.hidden = words.length === 0;
    if (results.hidden) return;
    for (const {s, at} of found(words)) {
      const item = document.createElement('li'), link = document.createElement('a'), title = document.createElement('b'), text = document.createElement('span');
      link.href = new URL(s.url, root);
      title.textContent = s.title === s.page ? s.page : `${s.page}: ${s.title}`;
      text.textContent = (at > around ? '… ' : '') + s.text.slice(Math.max(0, at - around), at + around).trim() + ' …';
      link.append(title, text);
      item.append(link);
      results.append(item);
    }
    if (!results.firstChild) {
      const none = document.createElement('p');
      none.textContent = 'No section has all these words.';
      results.append(none);
    }
  };

  query.addEventListener('input', show);
  query.addEventListener('keydown', e => {
    const first = results.querySelector('a');
    if (e.key === 'Enter' && first) first.click();
    if (e.key === 'ArrowDown' && first) { e.preventDefault(); first.focus(); }
  });
  results.addEventListener('keydown', e => {
    const to = {ArrowDown: 'nextElementSibling', ArrowUp: 'previousElementSibling'}[e.key];
    if (!to) return;
    e.preventDefault();
    (document.activeElement.parentElement[to]?.firstChild ?? query).focus();
  });
  results.addEventListener('click', () => { results.hidden = true; });
  document.addEventListener('keydown', e => {
    if (e.key === 'Escape') { results.hidden = true; query.blur(); }
    if (e.key === '/' && document.activeElement !== query) { e.preventDefault(); query.focus(); }
  });
  document.addEventListener('click', e => { if (!e.target.closest('.search')) results.hidden = true; });
})();
