'use strict';
(() => {
  const byId = (id) => document.getElementById(id);

  // What matters in a log is at its end.
  const toEnd = (box) => {
    for (const log of box.querySelectorAll('pre.text')) log.scrollTop = log.scrollHeight;
  };

  // The part of a case is made when it is first opened.
  const fill = (details) => {
    const part = details.dataset.part && byId(`part-${details.dataset.part}`);
    if (part && details.childElementCount === 1) details.append(part.content.cloneNode(true));
    toEnd(details);
  };
  document.addEventListener('toggle', (event) => {
    if (event.target.open) fill(event.target);
  }, true);

  // A link to a case opens it and all around it.
  const show = () => {
    const target = /^#case-\d+$/.test(location.hash) && byId(location.hash.slice(1));
    if (!target) return;
    fill(target);
    for (let at = target; at; at = at.parentElement) {
      if (at.tagName === 'DETAILS') at.open = true;
      if (at.hidden) reset();
    }
    target.scrollIntoView({ block: 'start' });
    const summary = target.querySelector('summary');
    if (summary) summary.focus({ preventScroll: true });
  };

  const filter = byId('filter');
  const buttons = [...document.querySelectorAll('button.count')];
  const tree = byId('tree');
  const rows = [...tree.querySelectorAll('li.row')];
  const boxes = [...tree.querySelectorAll('details.suite, li.group')].reverse();
  const openAtFirst = new Map([...tree.querySelectorAll('details.suite, li.group > details')].map((box) => [box, box.open]));

  const apply = () => {
    const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    const only = buttons.filter((button) => button.getAttribute('aria-pressed') === 'true').map((button) => button.dataset.only);
    const all = words.length === 0 && only.length === 0;
    let shown = 0;
    for (const row of rows) {
      const fits = (only.length === 0 || only.includes(row.dataset.v)) && words.every((word) => row.dataset.s.includes(word));
      row.hidden = !fits;
      shown += fits;
    }
    // From the inside out: a box without a visible row goes, too.
    for (const box of boxes) box.hidden = !box.querySelector('li.row:not([hidden])');
    for (const [box, open] of openAtFirst) box.open = all ? open : shown <= 500 || box.classList.contains('suite');
    byId('shown').textContent = `${shown} of ${rows.length}`;
  };
  const reset = () => {
    filter.value = '';
    for (const button of buttons) button.setAttribute('aria-pressed', 'false');
    apply();
  };
  let waiting = 0;
  filter.addEventListener('input', () => {
    clearTimeout(waiting);
    waiting = setTimeout(apply, 80);
  });
  byId('all').addEventListener('click', reset);
  for (const button of buttons) {
    button.addEventListener('click', () => {
      button.setAttribute('aria-pressed', String(button.getAttribute('aria-pressed') !== 'true'));
      apply();
      byId('h-all').scrollIntoView({ block: 'start' });
    });
  }
  document.addEventListener('keydown', (event) => {
    if (event.key === '/' && !/^(input|textarea)$/i.test(event.target.tagName)) {
      event.preventDefault();
      filter.focus();
    } else if (event.key === 'Escape' && event.target === filter) {
      reset();
    }
  });

  document.addEventListener('click', (event) => {
    const button = event.target.closest('button.copy');
    if (!button) return;
    const code = button.parentElement.querySelector('code');
    const said = (text) => {
      button.textContent = text;
      setTimeout(() => { button.textContent = 'copy'; }, 1500);
    };
    const select = () => {
      getSelection().selectAllChildren(code);
      said('selected');
    };
    if (navigator.clipboard) navigator.clipboard.writeText(code.textContent).then(() => said('copied'), select);
    else select();
  });

  addEventListener('hashchange', show);
  show();
  toEnd(document);
})();
