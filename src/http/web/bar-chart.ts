import { html } from 'htm/preact';
import { renderToString } from 'preact-render-to-string';

const [WIDTH, HEIGHT] = [300, 60];

/** Returns a small SVG image with a bar for each day, after a text with the sum and the maximum. */
export function renderBarChart(
  title: string,
  bars: readonly { label: string; value: number }[],
): string {
  const max = Math.max(0, ...bars.map(({ value }) => value));
  const width = WIDTH / Math.max(1, bars.length);
  const format = (value: number) => value.toLocaleString('en');
  const total = bars.reduce((sum, { value }) => sum + value, 0);
  const label = `${title}: ${format(total)} in ${bars.length} days, at most ${format(max)} in one`;
  return renderToString(html`
    <p>${label}</p>
    <svg class="chart" role="img" aria-label=${label} viewBox="0 0 ${WIDTH} ${HEIGHT}">
      ${bars.map((bar, index) => {
        const height = (HEIGHT * bar.value) / Math.max(1, max);
        return html`
          <rect x=${index * width} y=${HEIGHT - height} width=${width * 0.8} height=${height}>
            <title>${bar.label}: ${format(bar.value)}</title>
          </rect>
        `;
      })}
    </svg>
  `);
}
