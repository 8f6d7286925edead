// Stacked bars, drawn by uPlot. The table below a chart has the same data.

import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { useEffect, useRef } from "preact/hooks";
import { painted } from "./colour";
import { stacked } from "../state/usage";
import "../style/chart.css";

interface BarsProps {
  name: string;
  labels: string[];
  series: { label: string; values: number[] }[];
  format: (value: number) => string;
  /** A short label for the x axis. */
  short?: (label: string) => string;
}

const HEIGHT = 220;

export function Bars({ name, labels, series, format, short = (label) => label }: BarsProps) {
  const place = useRef<HTMLDivElement>(null);
  useEffect(() => {
    const element = place.current!;
    let chart: uPlot | null = null;
    const draw = () => {
      chart?.destroy();
      chart = new uPlot(optionsOf(element), dataOf(labels, series), element);
    };
    const optionsOf = (within: HTMLElement): uPlot.Options => {
      const ink = painted(within, "--soft");
      const line = painted(within, "--line");
      const axis = { stroke: ink, grid: { stroke: line, width: 1 }, ticks: { stroke: line, width: 1 }, font: "11px sans-serif" };
      return {
        width: Math.max(200, within.clientWidth),
        height: HEIGHT,
        legend: { show: false },
        cursor: { drag: { x: false, y: false }, points: { show: false } },
        scales: { x: { time: false, range: [-0.6, Math.max(0, labels.length - 1) + 0.6] }, y: { range: (_, __, most) => [0, most || 1] } },
        axes: [
          {
            ...axis,
            grid: { show: false },
            // Only whole places have a name, and only so many fit.
            splits: () => placesOf(labels.length, within.clientWidth),
            values: (_, places) => places.map((at) => short(labels[at] ?? "")),
          },
          { ...axis, size: 64, values: (_, values) => values.map((value) => format(value)) },
        ],
        series: [
          {},
          // The tallest first, so that each of the lower ones is drawn over it.
          ...[...series.keys()].reverse().map((index) => ({
            label: series[index]!.label,
            fill: painted(within, `--chart-${index % 6}`),
            width: 0,
            points: { show: false },
            paths: uPlot.paths.bars!({ size: [0.7, 48] }),
          })),
        ],
      };
    };
    draw();
    const resized = new ResizeObserver(() => chart?.setSize({ width: Math.max(200, element.clientWidth), height: HEIGHT }));
    resized.observe(element);
    const dark = matchMedia("(prefers-color-scheme: dark)");
    dark.addEventListener("change", draw);
    return () => {
      dark.removeEventListener("change", draw);
      resized.disconnect();
      chart?.destroy();
    };
  }, [labels, series]);
  return (
    <figure class="chart">
      <div ref={place} class="chart-place" role="img" aria-label={`${name}: chart. The table below has the same data.`} />
      {series.length > 1 && (
        <figcaption class="chart-legend">
          {series.map((one, index) => (
            <span key={one.label}>
              <i class={`swatch colour-${index % 6}`} aria-hidden="true" />
              {one.label || "Unknown model"}
            </span>
          ))}
        </figcaption>
      )}
    </figure>
  );
}

function dataOf(labels: string[], series: { values: number[] }[]): uPlot.AlignedData {
  return [labels.map((_, index) => index), ...stacked(series).reverse()];
}

function placesOf(count: number, width: number): number[] {
  const step = Math.max(1, Math.ceil(count / Math.max(2, Math.floor(width / 70))));
  return Array.from({ length: Math.ceil(count / step) }, (_, index) => index * step);
}
