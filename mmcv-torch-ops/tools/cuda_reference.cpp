// Binds mmcv's CUDA launchers, compiled for the CPU, under the names and arguments of mmcv._ext.
#include "cuda_on_cpu.h"

// clang-format off
#include "roi_pool_cuda.cu"
#include "roi_align_cuda.cu"
#include "deform_roi_pool_cuda.cu"
#include "focal_loss_cuda.cu"
#include "ms_deform_attn_cuda.cu"
#include "psamask_cuda.cu"
#include "masked_conv2d_cuda.cu"
namespace naive {  // it names a function as carafe_cuda.cu does
#include "carafe_naive_cuda.cu"
}
#include "carafe_cuda.cu"
// clang-format on

// The shared memory of ms_deform_attn's kernels, of a size known at the launch: three numbers for each thread.
alignas(16) thread_local int _s[3 * THREADS_PER_BLOCK * sizeof(double) / sizeof(int)];

void psamask_forward(Tensor input, Tensor output, int psa_type, int num_, int h_feature, int w_feature, int h_mask,
                     int w_mask, int half_h_mask, int half_w_mask) {
  PSAMaskForwardCUDAKernelLauncher(psa_type, input, output, num_, h_feature, w_feature, h_mask, w_mask, half_h_mask,
                                   half_w_mask);
}

void psamask_backward(Tensor grad_output, Tensor grad_input, int psa_type, int num_, int h_feature, int w_feature,
                      int h_mask, int w_mask, int half_h_mask, int half_w_mask) {
  PSAMaskBackwardCUDAKernelLauncher(psa_type, grad_output, grad_input, num_, h_feature, w_feature, h_mask, w_mask,
                                    half_h_mask, half_w_mask);
}

template <typename Function, typename... Names>
void bind(py::module_ &m, const char *name, Function function, Names... arguments) {
  m.def(name, function, py::arg(arguments)...);
}

void bind_rois(py::module_ &m) {
  bind(m, "roi_pool_forward", &ROIPoolForwardCUDAKernelLauncher, "input", "rois", "output", "argmax", "pooled_height",
       "pooled_width", "spatial_scale");
  bind(m, "roi_pool_backward", &ROIPoolBackwardCUDAKernelLauncher, "grad_output", "rois", "argmax", "grad_input",
       "pooled_height", "pooled_width", "spatial_scale");
  bind(m, "roi_align_forward", &ROIAlignForwardCUDAKernelLauncher, "input", "rois", "output", "argmax_y", "argmax_x",
       "aligned_height", "aligned_width", "spatial_scale", "sampling_ratio", "pool_mode", "aligned");
  bind(m, "roi_align_backward", &ROIAlignBackwardCUDAKernelLauncher, "grad_output", "rois", "argmax_y", "argmax_x",
       "grad_input", "aligned_height", "aligned_width", "spatial_scale", "sampling_ratio", "pool_mode", "aligned");
  bind(m, "deform_roi_pool_forward", &DeformRoIPoolForwardCUDAKernelLauncher, "input", "rois", "offset", "output",
       "pooled_height", "pooled_width", "spatial_scale", "sampling_ratio", "gamma");
  bind(m, "deform_roi_pool_backward", &DeformRoIPoolBackwardCUDAKernelLauncher, "grad_output", "input", "rois",
       "offset", "grad_input", "grad_offset", "pooled_height", "pooled_width", "spatial_scale", "sampling_ratio",
       "gamma");
}

void bind_losses(py::module_ &m) {
  bind(m, "sigmoid_focal_loss_forward", &SigmoidFocalLossForwardCUDAKernelLauncher, "input", "target", "weight",
       "output", "gamma", "alpha");
  bind(m, "sigmoid_focal_loss_backward", &SigmoidFocalLossBackwardCUDAKernelLauncher, "input", "target", "weight",
       "grad_input", "gamma", "alpha");
  bind(m, "softmax_focal_loss_forward", &SoftmaxFocalLossForwardCUDAKernelLauncher, "input", "target", "weight",
       "output", "gamma", "alpha");
  bind(m, "softmax_focal_loss_backward", &SoftmaxFocalLossBackwardCUDAKernelLauncher, "input", "target", "weight",
       "buff", "grad_input", "gamma", "alpha");
}

void bind_features(py::module_ &m) {
  bind(m, "carafe_naive_forward", &naive::CARAFENAIVEForwardCUDAKernelLauncher, "features", "masks", "output",
       "kernel_size", "group_size", "scale_factor");
  bind(m, "carafe_naive_backward", &naive::CARAFENAIVEBackwardCUDAKernelLauncher, "top_grad", "features", "masks",
       "bottom_grad", "mask_grad", "kernel_size", "group_size", "scale_factor");
  bind(m, "carafe_forward", &CARAFEForwardCUDAKernelLauncher, "features", "masks", "rfeatures", "routput", "rmasks",
       "output", "kernel_size", "group_size", "scale_factor");
  bind(m, "carafe_backward", &CARAFEBackwardCUDAKernelLauncher, "top_grad", "rfeatures", "masks", "rtop_grad",
       "rbottom_grad_hs", "rbottom_grad", "rmask_grad", "bottom_grad", "mask_grad", "kernel_size", "group_size",
       "scale_factor");
  bind(m, "psamask_forward", &psamask_forward, "input", "output", "psa_type", "num_", "h_feature", "w_feature",
       "h_mask", "w_mask", "half_h_mask", "half_w_mask");
  bind(m, "psamask_backward", &psamask_backward, "grad_output", "grad_input", "psa_type", "num_", "h_feature",
       "w_feature", "h_mask", "w_mask", "half_h_mask", "half_w_mask");
  bind(m, "masked_im2col_forward", &MaskedIm2colForwardCUDAKernelLauncher, "im", "mask_h_idx", "mask_w_idx", "col",
       "kernel_h", "kernel_w", "pad_h", "pad_w");
  bind(m, "masked_col2im_forward", &MaskedCol2imForwardCUDAKernelLauncher, "col", "mask_h_idx", "mask_w_idx", "im",
       "height", "width", "channels");
  bind(m, "ms_deform_attn_forward", &ms_deform_attn_cuda_forward, "value", "value_spatial_shapes",
       "value_level_start_index", "sampling_locations", "attention_weights", "im2col_step");
  bind(m, "ms_deform_attn_backward", &ms_deform_attn_cuda_backward, "value", "value_spatial_shapes",
       "value_level_start_index", "sampling_locations", "attention_weights", "grad_output", "grad_value",
       "grad_sampling_loc", "grad_attn_weight", "im2col_step");
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  bind_rois(m);
  bind_losses(m);
  bind_features(m);
}
