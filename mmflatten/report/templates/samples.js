// Samples: toggles show layers, filters choose images.
const gallery = document.getElementById('gallery');
if (gallery) {
  const toggles = $$('.toggle', gallery);
  const showLayers = () => toggles.forEach(toggle => $$(`[data-layer="${toggle.dataset.layer}"]`, gallery)
    .filter(layer => layer !== toggle)
    .forEach(layer => layer.classList.toggle('off', toggle.getAttribute('aria-pressed') !== 'true')));
  toggles.forEach(toggle => toggle.addEventListener('click', () => {
    const pressed = toggle.getAttribute('aria-pressed') !== 'true';
    if (pressed && gallery.dataset.exclusive === 'true') toggles.forEach(other => other.setAttribute('aria-pressed', false));
    toggle.setAttribute('aria-pressed', pressed);
    showLayers();
  }));
  const [group, kind] = ['sample-group', 'sample-class'].map(id => document.getElementById(id));
  const filter = () => {
    const samples = $$('.sample', gallery);
    const shown = samples.filter(sample => (!group.value || sample.dataset.group === group.value)
      && (!kind?.value || JSON.parse(sample.dataset.classes).includes(kind.value)));
    samples.forEach(sample => { sample.hidden = !shown.includes(sample); });
    document.getElementById('sample-count').value = `${shown.length} of ${samples.length} images`;
  };
  [group, kind].forEach(select => select?.addEventListener('change', filter));
  $$('.enlarge', gallery).forEach(button => button.addEventListener('click', () => {
    button.setAttribute('aria-pressed', button.closest('.sample').classList.toggle('large'));
  }));
  showLayers();
  filter();
}
