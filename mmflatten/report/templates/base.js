'use strict';
const $$ = (selector, root = document) => [...root.querySelectorAll(selector)];

// Navigation: a link for each section.
const links = document.querySelector('nav ul');
$$('main > section').forEach(section => {
  const link = document.createElement('a');
  link.href = '#' + section.id;
  link.textContent = section.querySelector('h2').textContent;
  links.append(document.createElement('li'));
  links.lastChild.append(link);
});

// Theme: the system's until the button is pressed. Whatever draws by itself listens to `themechange`.
const root = document.documentElement;
const themeButton = document.getElementById('theme');
const systemDark = matchMedia('(prefers-color-scheme: dark)');
const isDark = () => (root.style.colorScheme || (systemDark.matches ? 'dark' : 'light')) === 'dark';
function setTheme(name) {
  root.style.colorScheme = name;
  themeButton.setAttribute('aria-pressed', isDark());
  document.dispatchEvent(new Event('themechange'));
}
function colour(name) { // of a custom property of the style sheet, such as '--text', as the theme has it
  const probe = document.createElement('i');
  probe.style.color = `var(${name})`;
  document.body.append(probe);
  const found = getComputedStyle(probe).color;
  probe.remove();
  return found;
}
themeButton.addEventListener('click', () => setTheme(isDark() ? 'light' : 'dark'));
systemDark.addEventListener('change', () => setTheme(root.style.colorScheme));
themeButton.setAttribute('aria-pressed', isDark());

// Printing: on light, with everything open.
let before = null;
addEventListener('beforeprint', () => {
  before = [root.style.colorScheme, $$('details:not([open])')];
  before[1].forEach(details => { details.open = true; });
  root.classList.add('printing');
  setTheme('light');
});
addEventListener('afterprint', () => {
  before[1].forEach(details => { details.open = false; });
  root.classList.remove('printing');
  setTheme(before[0]);
});
