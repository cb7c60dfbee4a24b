// cuBLAS, cuDNN and NCCL, loaded by name when something first needs them, so that the plugin loads without them and a missing one is
// an error that names it. To use another function of a library: a word in its list.
// Built with ENGINE_CUDA_LINKED (the emulation), the functions are those linked in.
#pragma once

#include <cublas_v2.h>
#include <cudnn.h>
#include <nccl.h>

#include <string>

#define ENG_CUBLAS_FUNCTIONS(X) \
  X(cublasCreate_v2) X(cublasDestroy_v2) X(cublasSetStream_v2) X(cublasSetWorkspace_v2) X(cublasGetStatusString) \
  X(cublasSgemmStridedBatched) X(cublasDgemmStridedBatched)

#define ENG_CUDNN_FUNCTIONS(X) \
  X(cudnnCreate) X(cudnnDestroy) X(cudnnSetStream) X(cudnnGetErrorString) \
  X(cudnnCreateTensorDescriptor) X(cudnnDestroyTensorDescriptor) X(cudnnSetTensorNdDescriptor) \
  X(cudnnCreateFilterDescriptor) X(cudnnDestroyFilterDescriptor) X(cudnnSetFilterNdDescriptor) \
  X(cudnnCreateConvolutionDescriptor) X(cudnnDestroyConvolutionDescriptor) X(cudnnSetConvolutionNdDescriptor) \
  X(cudnnSetConvolutionGroupCount) X(cudnnSetConvolutionMathType) \
  X(cudnnGetConvolutionForwardAlgorithm_v7) X(cudnnGetConvolutionForwardWorkspaceSize) X(cudnnConvolutionForward) \
  X(cudnnGetConvolutionBackwardDataAlgorithm_v7) X(cudnnGetConvolutionBackwardDataWorkspaceSize) X(cudnnConvolutionBackwardData) \
  X(cudnnGetConvolutionBackwardFilterAlgorithm_v7) X(cudnnGetConvolutionBackwardFilterWorkspaceSize) X(cudnnConvolutionBackwardFilter) \
  X(cudnnBatchNormalizationForwardInference) X(cudnnBatchNormalizationForwardTraining) X(cudnnBatchNormalizationBackward) \
  X(cudnnCreatePoolingDescriptor) X(cudnnDestroyPoolingDescriptor) X(cudnnSetPoolingNdDescriptor) X(cudnnPoolingForward) X(cudnnPoolingBackward) \
  X(cudnnSoftmaxForward) X(cudnnSoftmaxBackward)

#define ENG_NCCL_FUNCTIONS(X) \
  X(ncclGetUniqueId) X(ncclCommInitAll) X(ncclCommInitRank) X(ncclCommDestroy) X(ncclCommAbort) X(ncclCommGetAsyncError) X(ncclGetErrorString) \
  X(ncclAllReduce) X(ncclReduceScatter) X(ncclAllGather) X(ncclBroadcast) X(ncclGroupStart) X(ncclGroupEnd)

namespace eng::cuda {

#define ENG_MEMBER(name) decltype(&::name) name = nullptr;
struct Cublas { ENG_CUBLAS_FUNCTIONS(ENG_MEMBER) };
struct Cudnn { ENG_CUDNN_FUNCTIONS(ENG_MEMBER) };
struct Nccl { ENG_NCCL_FUNCTIONS(ENG_MEMBER) };
#undef ENG_MEMBER

// The library's functions; throws Failure(EB_UNSUPPORTED) that names the file and the loader's reason. Loaded once, never unloaded.
const Cublas& cublas();
const Cudnn& cudnn();
const Nccl& nccl();

// Empty where the library can be loaded; else why not.
std::string missing_cublas();
std::string missing_cudnn();
std::string missing_nccl();

// Throw Failure with the library's text unless the result is success.
void check(cublasStatus_t result, const char* what);
void check(cudnnStatus_t result, const char* what);
void check(ncclResult_t result, const char* what);

}  // namespace eng::cuda
