package recommend

import (
	"fmt"
	"testing"
)

// A few buckets that need much more than others have a size of their own. Of many, only those have one that come before a drop to
// half, and of many that need about the same none has.
func TestOwnSizesAreBounded(t *testing.T) {
	for says, tt := range map[string]struct {
		bursts []float64
		want   int
	}{
		"one":                            {[]float64{1000, 10, 10}, 1},
		"none needs twice the least":     {[]float64{199, 150, 10}, 0},
		"eight that are much alike":      {[]float64{800, 700, 650, 600, 550, 500, 450, 400, 10}, 8},
		"nine that are much alike":       {[]float64{800, 700, 650, 600, 550, 500, 450, 400, 390, 10}, 0},
		"two, and nine more":             {[]float64{8000, 5000, 900, 800, 700, 650, 600, 550, 500, 450, 400, 10}, 2},
		"the last drop of several":       {[]float64{64000, 32000, 16000, 8000, 4000, 2500, 2000, 1900, 1800, 10}, 4},
		"a drop right after the eighth":  {[]float64{9000, 8000, 7000, 6000, 5900, 5800, 5700, 5600, 2800, 2700, 10}, 8},
		"a drop after the ninth is late": {[]float64{9000, 8000, 7000, 6000, 5900, 5800, 5700, 5600, 5500, 2700, 10}, 0},
	} {
		t.Run(says, func(t *testing.T) {
			sizes := map[bucket]size{}
			for i, burst := range tt.bursts {
				sizes[bucket{namespace: fmt.Sprint("n", i)}] = size{burst: burst}
			}
			own := ownSizes(sizes, size{burst: 100})
			if len(own) != tt.want {
				t.Errorf("%d have a size of their own, want %d: %v", len(own), tt.want, own)
			}
			for i, b := range own {
				if want := fmt.Sprint("n", i); b.namespace != want {
					t.Errorf("place %d has %s, want %s", i, b.namespace, want)
				}
			}
		})
	}
}
